"""Files of worktrees and of other roots: a walk that cannot leave them, the module `fs`, and what `import` and `require` find there."""
