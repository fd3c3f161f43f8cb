// Package freeport owns how a test finds a port for a program that it starts. A port that the kernel has chosen for a
// listener is free for anybody once that is closed, and on a busy machine another test gets it before the program has
// begun to listen. So these are ports that the kernel gives to nobody by itself.
package freeport

import (
	"fmt"
	"math/rand/v2"
	"net"
	"testing"
)

// Below what Linux chooses from (net.ipv4.ip_local_port_range), and below what allocations are given.
const lowest, highest = 10_000, 19_999

// Pick returns a port of the loopback interface on which nobody listens.
func Pick(t testing.TB) int {
	t.Helper()
	port, err := Find()
	if err != nil {
		t.Fatal(err)
	}
	return port
}

// Find is Pick for a program that is no test.
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
