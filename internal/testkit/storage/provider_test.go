package storage

import (
	"strings"
	"testing"
	"time"

	"berth/internal/base/ids"
	"berth/internal/client/csimanager"
	"berth/internal/client/dynamicplugins"
	"berth/internal/conformance/csi/csitest"
	"berth/internal/model/plugin"
	"berth/internal/model/volume"
	"berth/internal/wire"
)

// serveBy has another plugin process serve the member's plugin id.
func (m *member) serveBy(p *csitest.Plugin, was, now ids.Alloc) {
	m.c.t.Helper()
	m.placePlugin(now)
	base := csimanager.HostBase(m.dir, ids.Plugin(m.p.ID))
	for _, role := range []plugin.Role{plugin.RoleController, plugin.RoleNode} {
		if err := m.client.Plugins().Deregister(role, ids.Plugin(m.p.ID), was); err != nil {
			m.c.t.Fatal(err)
		}
		if err := m.client.Plugins().Register(dynamicplugins.Info{
			Plugin:   ids.Plugin(m.p.ID),
			Role:     role,
			Alloc:    now,
			Socket:   p.Socket,
			HostBase: base,
			TaskBase: base,
			Scope:    plugin.ScopeCluster,
			Declared: time.Now(),
		}); err != nil {
			m.c.t.Fatal(err)
		}
	}
}

// servedBy waits until the servers know who serves a plugin, and that no other instance of it is left.
func (c *cluster) servedBy(p *csitest.Plugin, provider string) {
	c.t.Helper()
	eventually(c.t, "the servers know that "+provider+" serves the plugin", func() bool {
		s := c.s.Store().Snapshot()
		for n := range s.Nodes(nil, "") {
			for _, i := range n.CSI {
				if i.Healthy() && i.Provider != provider {
					return false
				}
			}
		}
		r := s.Plugin(nil, ids.Plugin(p.ID))
		return r != nil && r.Provider == provider
	})
}

// TestAnotherProviderGetsNothingWithoutRebind: a volume's id means nothing to the provider that has its plugin's id
// now. What that one calls deleted would be with the first for ever.
func TestAnotherProviderGetsNothingWithoutRebind(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	first := csitest.New(t, csitest.Options{
		World:    c,
		Unjudged: "another one takes over what it made, of which its own record knows nothing",
		Fake:     csitest.Fake{Mount: csitest.MountBind},
	})
	m := c.member("one", first)
	c.awaitPlugin(first.ID)
	c.mustCreate("gone", first, volume.SingleNodeWriter)
	c.mustCreate("db", first, volume.SingleNodeWriter)
	// It has the same volumes, as a driver under a new name.
	second := csitest.New(t, csitest.Options{
		World:    c,
		Unjudged: "it takes over what another one made, of which its own record knows nothing",
		Fake:     csitest.Fake{Name: "other.csi.berth.test", Mount: csitest.MountBind, Dir: first.Dir},
	})
	m.serveBy(second, "plugin-one", "plugin-other")
	c.servedBy(first, "other.csi.berth.test")

	const reason = `this volume belongs to provider "fake.csi.berth.test"`
	if err := c.delete("gone", 50*time.Second); err == nil || !strings.Contains(err.Error(), reason) {
		t.Errorf("the deletion ended with %v", err)
	}
	c.runJob("web", "db", volume.SingleNodeWriter)
	view, err := wire.VolumeGet.Call(t.Context(), c.conn,
		&wire.Ref[ids.Volume]{ID: "db", Query: wire.Query{Namespace: ids.DefaultNamespace}})
	if err != nil || !strings.Contains(strings.Join(view.Item.State, "\n"), reason) {
		t.Errorf("the volume shows %+v, %v", view, err)
	}
	for _, call := range second.Calls() {
		if name, _, _ := strings.Cut(call, "="); strings.Contains(name, "Volume") {
			t.Errorf("the second provider was asked: %s", call)
		}
	}
	if n := len(backend(t, first)); n != 2 {
		t.Errorf("the first provider has %d volumes", n)
	}

	if _, err := wire.PluginRebind.Call(t.Context(), c.conn,
		&wire.PluginRebindRequest{Plugin: ids.Plugin(first.ID), Provider: "third"}); err == nil {
		t.Error("volumes were handed over to a provider that nobody runs")
	}
	if _, err := wire.PluginRebind.Call(t.Context(), c.conn,
		&wire.PluginRebindRequest{Plugin: ids.Plugin(first.ID), Provider: "other.csi.berth.test"}); err != nil {
		t.Fatal(err)
	}
	c.running("web")
	if err := c.delete("gone", time.Minute); err != nil {
		t.Errorf("the deletion after that ended with %v", err)
	}
	if n := len(backend(t, first)); n != 1 {
		t.Errorf("%d volumes are left", n)
	}
	c.stopJob("web")
	c.released()
}

// TestANodeAsksNoOtherProviderAboutWhatItHolds: what one provider has mounted there is neither unpublished nor unstaged
// by another one under the same plugin id, before a person has handed the volumes over; then the node goes on.
func TestANodeAsksNoOtherProviderAboutWhatItHolds(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	first := csitest.New(t, csitest.Options{
		World:    c,
		Unjudged: "another one takes over what it made, of which its own record knows nothing",
		Fake:     csitest.Fake{Mount: csitest.MountBind},
	})
	m := c.member("one", first)
	c.awaitPlugin(first.ID)
	c.mustCreate("db", first, volume.SingleNodeWriter)
	c.runJob("web", "db", volume.SingleNodeWriter)
	c.running("web")
	second := csitest.New(t, csitest.Options{
		World:    c,
		Unjudged: "it takes over what another one made, of which its own record knows nothing",
		Fake:     csitest.Fake{Name: "other.csi.berth.test", Mount: csitest.MountBind, Dir: first.Dir},
	})
	m.serveBy(second, "plugin-one", "plugin-other")
	c.servedBy(first, "other.csi.berth.test")
	c.stopJob("web")
	eventually(t, "the release says whom it waits for", func() bool {
		r, err := wire.VolumeGet.Call(t.Context(), c.conn,
			&wire.Ref[ids.Volume]{ID: "db", Query: wire.Query{Namespace: ids.DefaultNamespace}})
		if err != nil {
			t.Fatal(err)
		}
		return strings.Contains(strings.Join(r.Item.State, "\n"), `unpublish volume`) &&
			strings.Contains(strings.Join(r.Item.State, "\n"), `belongs to provider "fake.csi.berth.test"`)
	})
	for _, call := range second.Calls() {
		if strings.HasPrefix(call, "NodeUn") {
			t.Errorf("the second provider was asked: %s", call)
		}
	}
	if _, err := wire.PluginRebind.Call(t.Context(), c.conn,
		&wire.PluginRebindRequest{Plugin: ids.Plugin(first.ID), Provider: "other.csi.berth.test"}); err != nil {
		t.Fatal(err)
	}
	c.released()
	if calls := strings.Join(second.Calls(), " "); !strings.Contains(calls, "NodeUnpublishVolume NodeUnstageVolume") {
		t.Errorf("after they were handed over it was asked for: %s", calls)
	}
}
