"""Parameter servers: variables that live on servers, and steps that workers run for a chief."""
