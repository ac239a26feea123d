"""What makes a step legal, and what to do instead: regions, dependence, domains of moved blocks, ways out."""
