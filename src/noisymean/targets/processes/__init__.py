"""Foreign code in a process of its own.

wire      frames of JSON over pipes; arrays in memory that both processes map
client    our side: starts a worker, asks it, has its faults in one line
serving   the other side: sessions that answer until the input ends
begin     starts the other side, which ends with us from its first moment on
start     starts the other side where noisymean itself cannot be imported
pip       packages by name, wheels only; a lock between two that install
leash     a command that ends when we do
"""
