"""The Archive: what it holds, what it answers, and how it takes part in a network (R15 chapter 9; floor 4)."""
