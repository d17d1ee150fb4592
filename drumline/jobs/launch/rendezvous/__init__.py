"""How the launchers of several hosts meet and act as one: JSON lines over TCP.

Host 0 listens at exactly the address of ``--rendezvous`` until all hosts have come. Its launcher
decides; the others tell it what happens on their hosts. Every line is limited in size and checked
against a schema before anything is done with it.
"""
