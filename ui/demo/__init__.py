"""Show what Pawtill does: a panel of things to scan beside the window, and a story that plays itself."""
