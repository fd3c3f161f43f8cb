// Package freeport owns how a port is found for a program that is about to be started. A port that the kernel has
// chosen for a listener is free for anybody once that is closed, and on a busy machine another program gets it before
// this one has begun to listen. So these are ports that the kernel gives to nobody by itself. Tools import it, and
// fixtures.
package freeport

import (
	"fmt"
	"math/rand/v2"
	"net"
)

// Below what Linux chooses from (net.ipv4.ip_local_port_range), and below what allocations are given.
const lowest, highest = 10_000, 19_999

// Find returns a port of the loopback interface on which nobody listens.
func Find() (int, error) {
	var err error
	for range 100 {
		port := lowest + rand.IntN(highest-lowest+1)
		var l net.Listener
		if l, err = net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port)); err == nil {
			return port, l.Close()
		}
	}
	return 0, fmt.Errorf("no port is free from %d to %d: %w", lowest, highest, err)
}
