package client_test

import (
	"sync/atomic"
	"testing"
	"time"

	"berth/internal/base/bootclock"
	"berth/internal/client"
	"berth/internal/client/dynamicplugins"
	"berth/internal/conformance/csi/csitest"
	"berth/internal/model/plugin"
	"berth/internal/wire"
)

// TestEveryCallToAPluginIsCountedByTheNodeSClock: given a node with a clock of its own, when the servers ask for a
// controller call, and when a plugin is probed, then that clock is read.
func TestEveryCallToAPluginIsCountedByTheNodeSClock(t *testing.T) {
	var read atomic.Int64
	clock := bootclock.New(func() time.Duration {
		read.Add(1)
		return bootclock.Now()
	})
	r := newRig(t)
	r.tune = func(cfg *client.Config) { cfg.Clock = clock }
	c := r.start()
	r.servers.calls <- wire.ControllerCall{Kind: wire.CallDelete, Subject: "db", Plugin: "nobody"}
	if <-r.servers.made; read.Load() == 0 {
		t.Error("a controller call was not counted by it")
	}
	read.Store(0)
	p := csitest.Alone(t, csitest.Options{})
	err := c.Plugins().Register(dynamicplugins.Info{
		Plugin:   "fake",
		Role:     plugin.RoleController,
		Alloc:    "11111111-1111-1111-1111-111111111111",
		Socket:   p.Socket,
		HostBase: "/b",
		TaskBase: "/b",
		Declared: time.Now(),
	})
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, "the plugin is ready", func() bool {
		all := c.Instances()
		return len(all) == 1 && all[0].Healthy()
	})
	if read.Load() == 0 {
		t.Error("the calls to a plugin were not counted by it")
	}
}
