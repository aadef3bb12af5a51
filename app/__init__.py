"""The application without a screen: rules, the till's use cases, the till's store."""
