"""The label of everything that a program wrote, or helped to write: who reads it knows that it talks to one."""

# In these words, unless a policy has others for what it governs.
DISCLOSURE = "Sent by an AI agent"
