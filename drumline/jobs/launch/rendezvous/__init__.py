"""How the launchers of several hosts find each other and act as one: JSON lines over TCP.

Host 0 listens at exactly the address of ``--rendezvous`` until all hosts have joined. Its launcher
decides; the others report to it what happens on their hosts. Every line is limited in size and
checked against a schema before anything is done with it.
"""
