package server_test

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"

	"berth/internal/testkit/servers"
)

// Given three servers of which two cannot open the data keys, when they start, then the third leads, whoever was
// elected first: the others give the leadership away, and none of them ends.
func TestAServerThatCannotOpenTheDataKeysHasAnotherLead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := servers.Start(t, 3)
		if c.Leader() == nil {
			t.Fatal("no server leads")
		}
		for _, m := range c.Members {
			m.Stop()
		}
		for _, m := range c.Members[:2] {
			if err := os.WriteFile(filepath.Join(m.Dir(), "keyring", "root.key"), bytes.Repeat([]byte{7}, 32),
				0o600); err != nil {
				t.Fatal(err)
			}
		}
		for _, m := range c.Members {
			m.Start()
		}
		if lead := c.Leader(); lead != c.Members[2] {
			t.Errorf("%+v leads", lead)
		}
		register(t, c.Members[0], "web")
	})
}
