// Package lineage owns the model test of who may be believed: servers of production over a state in memory, whose log
// and snapshots can be cut and put back, and nodes that act by the pure laws of the client on machines in memory, which
// can crash, be cloned and lose their stores. It plays what befalls a node with what befalls the servers, in both
// orders, for volumes in every state, and has a person do what the product says.
//
// It owns the simulation of a cluster, too: the same nodes with several servers of production, their logs on disk and
// their ports on a network in memory, in one bubble of time, to which whatever a seed draws happens. It has nothing but
// tests.
package lineage
