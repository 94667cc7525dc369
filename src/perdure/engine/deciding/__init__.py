"""Decides, without the world: what runs next, what writes make of the state, what a call means. Pure."""
