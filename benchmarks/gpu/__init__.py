"""Networks on a GPU: `drumline cnn` beside torchvision's in PyTorch, by turns. See `__main__`."""
