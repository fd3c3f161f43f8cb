package claims

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"berth/internal/base/ids"
	"berth/internal/model/node"
	"berth/internal/model/plugin"
	"berth/internal/server/state"
	"berth/internal/testkit/pluginjobs"
)

// TestTheServersOrderDecidesWhatAPluginIs: of several instances the one that was placed last says what the plugin is,
// whatever the clocks of nodes say; one of a node that is down only where no other says anything, one that the servers
// have not placed never.
func TestTheServersOrderDecidesWhatAPluginIs(t *testing.T) {
	store, at := state.New(), uint64(0)
	put := func(n *node.Node, placed bool) {
		at++
		if err := store.Write(state.Stamp{Index: at}, func(tx *state.Tx) error {
			if placed {
				pluginjobs.Put(tx, n)
			} else {
				tx.PutNode(n)
			}
			return nil
		}); err != nil {
			t.Fatal(err)
		}
	}
	says := func(id ids.Node, provider string, updated time.Time, status string) *node.Node {
		return &node.Node{ID: id, Status: status, CSI: []*plugin.Instance{{
			Plugin:   "p",
			Role:     plugin.RoleController,
			State:    plugin.Ready,
			Provider: provider,
			Updated:  updated,
		}}}
	}
	provider := func() string {
		for _, r := range learned(store.Snapshot(), nil) {
			return r.Provider
		}
		return ""
	}
	now := time.Unix(1_000_000, 0)
	put(says("z", "forged", now.AddDate(100, 0, 0), node.StatusReady), false)
	if got := provider(); got != "" {
		t.Errorf("nothing is placed, and the provider is %q", got)
	}
	put(says("b", "first", now.AddDate(100, 0, 0), node.StatusReady), true)
	put(says("a", "second", now, node.StatusReady), true)
	if got := provider(); got != "second" {
		t.Errorf("the provider is %q", got)
	}
	put(says("a", "second", now.AddDate(200, 0, 0), node.StatusDown), true)
	if got := provider(); got != "first" {
		t.Errorf("with the last node down the provider is %q", got)
	}
	put(says("b", "first", now, node.StatusDown), true)
	if got := provider(); got != "second" {
		t.Errorf("with all nodes down the provider is %q", got)
	}
}

// TestAServerThatStopsReportsNoFailure: what it could not write then, the next leader does; what it cannot write while
// it leads is said.
func TestAServerThatStopsReportsNoFailure(t *testing.T) {
	var said bytes.Buffer
	k := New(Config{Log: slog.New(slog.NewTextHandler(&said, nil))})
	ctx, cancel := context.WithCancel(t.Context())
	k.report(ctx, errors.New("no room"), "it cannot be stored", "p")
	if !strings.Contains(said.String(), "no room") {
		t.Errorf("of a failure it says %q", said.String())
	}
	said.Reset()
	cancel()
	k.report(ctx, ctx.Err(), "it cannot be stored", "p")
	if said.Len() > 0 {
		t.Errorf("of its stop it says %q", said.String())
	}
}
