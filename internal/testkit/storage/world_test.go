package storage

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/moby/sys/mountinfo"

	"berth/internal/base/ids"
	"berth/internal/conformance/csi/csitest"
	"berth/internal/conformance/csi/oracle"
	"berth/internal/conformance/csi/proxy"
	"berth/internal/model/volume"
	"berth/internal/port/csi"
	"berth/internal/port/hostfs"
	"berth/internal/server/state"
	"berth/internal/server/volumes"
	"berth/internal/wire"
)

// patience is how long a release, or work that nothing hinders, may take here, where many tests share a small machine.
const patience = 30 * time.Second

// Witness implements csitest.World: the drivers' processes and the servers' claims at the begin of a call.
func (c *cluster) Witness(begin proxy.Entry) *proxy.Observation {
	switch csi.RPC(begin.RPC) {
	case csi.NodeUnpublishVolume:
		return &proxy.Observation{Living: c.watch.living(begin.Target)}
	case csi.DeleteVolume:
		s := c.live.Load().Store().Snapshot()
		return &proxy.Observation{Holders: holders(s, ids.Plugin(begin.Plugin), begin.Volume)}
	case csi.ControllerPublishVolume, csi.NodeStageVolume, csi.NodePublishVolume:
		return &proxy.Observation{Writers: c.watch.writers(begin.Volume)}
	}
	return &proxy.Observation{}
}

// holders are the claims of a provider's volume, and its registrations beyond the one that is being deleted.
func holders(s *state.Snap, plugin ids.Plugin, externalID string) []string {
	out := []string{}
	is := func(v *volume.Volume) bool {
		return v != nil && v.Spec.Plugin == plugin && v.Status.ExternalID == externalID
	}
	for cl := range s.Claims(nil) {
		if cl.Plugin == plugin && cl.ExternalID == externalID {
			out = append(out, "claim: "+volume.DescribeClaim(cl))
		}
	}
	for v := range s.Volumes(nil, "", "") {
		if is(v) && v.Status.Phase != volume.PhaseDeleting {
			out = append(out, "registration "+v.ID.String())
		}
	}
	return out
}

// Facts implements csitest.World.
func (c *cluster) Facts(p *csitest.Plugin) oracle.Facts {
	s := c.live.Load().Store().Snapshot()
	w := c.watch
	w.mu.Lock()
	defer w.mu.Unlock()
	return oracle.Facts{
		Processes: oracle.Witnessed(),
		Holders:   oracle.Witnessed(),
		Writers:   oracle.Witnessed(),
		Tasks:     oracle.Feed(w.tasks...),
		Shown:     oracle.Feed(w.shown...),
		Works:     oracle.Feed(w.works...),
		Secrets:   oracle.Feed(w.secrets...),
		Texts: oracle.Feed(oracle.Text{Where: "the logs of servers and nodes", Text: w.log.String()},
			oracle.Text{Where: "the replicated state", Text: texts(s)}),
		Strays:   oracle.Feed(w.strays...),
		Ends:     oracle.Feed(w.ends...),
		Obeyed:   oracle.Feed(w.acts()...),
		Quiet:    oracle.Feed(w.quiets...),
		Provider: oracle.Feed(p.Provider()...),
		Records:  oracle.Feed(append(records(s, ids.Plugin(p.ID)), w.given...)...),
		Release:  patience,
	}
}

// records are the volumes and snapshots that the servers know.
func records(s *state.Snap, plugin ids.Plugin) (out []oracle.Record) {
	meta := s.Meta(nil)
	for v := range s.Volumes(nil, "", "") {
		if v.Spec.Plugin == plugin {
			out = append(out, oracle.Record{
				ID:      v.Status.ExternalID,
				Name:    volumes.ProviderName(meta.ClusterID, v),
				Passing: v.Status.Phase == volume.PhaseCreating || v.Status.Phase == volume.PhaseDeleting,
			})
		}
	}
	for sn := range s.VolumeSnapshots(nil) {
		if sn.Plugin == plugin {
			out = append(out, oracle.Record{
				ID:      sn.ExternalID,
				Name:    sn.Name,
				Passing: sn.Phase == volume.PhaseCreating || sn.Phase == volume.PhaseDeleting,
			})
		}
	}
	return out
}

// texts is everything in the state that people are shown of storage.
func texts(s *state.Snap) string {
	var b strings.Builder
	for v := range s.Volumes(nil, "", "") {
		fmt.Fprintf(&b, "%+v\n", *v)
	}
	for sn := range s.VolumeSnapshots(nil) {
		fmt.Fprintf(&b, "%+v\n", *sn)
	}
	for cl := range s.Claims(nil) {
		fmt.Fprintf(&b, "%+v\n", *cl)
	}
	for a := range s.Attachments(nil) {
		fmt.Fprintf(&b, "%+v\n", *a)
	}
	for a := range s.Allocs(nil, "") {
		fmt.Fprintf(&b, "%+v\n", *a)
	}
	for n := range s.Nodes(nil, "") {
		for i := range s.InventoryOf(nil, n.ID) {
			fmt.Fprintf(&b, "%+v\n", *i)
		}
	}
	return b.String()
}

// rest is what is left of volumes. What a node has reported as gone may take a moment to leave its directories.
func (c *cluster) rest() (r oracle.Rest) {
	c.t.Helper()
	for deadline := time.Now().Add(patience); ; time.Sleep(5 * time.Millisecond) {
		r = c.left()
		if len(r.Mounts)+len(r.Dirs) == 0 || time.Now().After(deadline) {
			return r
		}
	}
}

func (c *cluster) left() (r oracle.Rest) {
	s := c.live.Load().Store().Snapshot()
	for cl := range s.Claims(nil) {
		r.Claims = append(r.Claims, volume.DescribeClaim(cl))
	}
	for a := range s.Attachments(nil) {
		r.Attachments = append(r.Attachments, volume.DescribeAttachment(a))
	}
	table, err := hostfs.ReadTable()
	if err != nil {
		c.t.Error(err)
		return r
	}
	for _, m := range c.watch.all() {
		for _, mount := range table.Beneath(m.dir) {
			r.Mounts = append(r.Mounts, mount.Path)
		}
		for _, pattern := range []string{"csi/*/s/*", "csi/*/p/*"} {
			dirs, err := filepath.Glob(filepath.Join(m.dir, pattern))
			if err != nil {
				c.t.Error(err)
			}
			r.Dirs = append(r.Dirs, dirs...)
		}
	}
	return r
}

// beneath notes what workloads have written where no volume is mounted.
func (w *watch) beneath(m *member) {
	found, err := csitest.Beneath(filepath.Join(m.dir, "csi"), func(name string) bool {
		return filepath.Ext(name) != ".id"
	})
	if err != nil {
		m.c.t.Error(err)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.strays = append(w.strays, found...)
}

// deregister has the servers forget a volume that the provider keeps.
func (c *cluster) deregister(name string) {
	c.t.Helper()
	v := c.s.Store().Snapshot().Volume(nil, volID(name))
	if v == nil {
		c.t.Fatalf("%s is not registered", name)
	}
	c.watch.gives(v.Status.ExternalID)
	if _, err := wire.VolumeDeregister.Call(c.t.Context(), c.conn,
		&wire.VolumeDeleteRequest{Volume: volID(name)}); err != nil {
		c.t.Fatal(err)
	}
}

// gives says that the provider has a volume which is nobody's but a person's.
func (w *watch) gives(externalID string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.given = append(w.given, oracle.Record{ID: externalID, Passing: true})
}

// mounted reports whether a task's volume is a mount point, or a block device.
func mounted(path string) bool {
	is, err := mountinfo.Mounted(path)
	return err == nil && is
}

// sources are the paths on the node of a task's volumes.
func (m *member) sources(mounts []string) (out []string) {
	for _, path := range mounts {
		if strings.HasPrefix(path, filepath.Join(m.dir, "csi")+string(os.PathSeparator)) {
			out = append(out, path)
		}
	}
	return slices.Compact(out)
}
