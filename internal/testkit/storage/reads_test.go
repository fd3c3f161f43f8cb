package storage

import (
	"strings"
	"testing"
	"time"

	"berth/internal/conformance/csi/csitest"
	"berth/internal/model/volume"
	"berth/internal/port/csi"
	"berth/internal/server"
)

// unlisted is a plugin that lists no volumes, and says of each that a disk of it is gone.
var unlisted = csitest.Fake{
	Controller: csi.Caps[csi.ControllerCap]{csi.CapCreateDelete, csi.CapGetVolume},
	Condition:  "a disk is gone",
}

// reading is a cluster that looks at what providers have many times a second.
func reading(t *testing.T, alpha bool) (*cluster, *csitest.Plugin) {
	t.Helper()
	c := newClusterWith(t, server.Config{Dev: true, AlphaGetVolume: alpha, VolumeListInterval: 10 * time.Millisecond})
	p := c.startPlugin(unlisted)
	c.member("a", p)
	c.awaitPlugin(p.ID)
	return c, p
}

// timesRead counts how often a volume was read.
func timesRead(p *csitest.Plugin) (n int) {
	for _, e := range p.Entries() {
		if e.RPC == string(csi.ControllerGetVolume) {
			n++
		}
	}
	return n
}

// TestAVolumeThatIsNotListedIsRead: a plugin without a list is asked about each of its volumes, and its word on their
// condition is shown. That no two calls of one volume overlap, also while it is deleted, is the oracle's to judge.
func TestAVolumeThatIsNotListedIsRead(t *testing.T) {
	t.Parallel()
	c, p := reading(t, true)
	for _, name := range []string{"db", "web"} {
		c.mustCreate(name, p, volume.SingleNodeWriter)
	}
	for _, name := range []string{"db", "web"} {
		eventually(t, "the condition of volume "+name+" is shown", func() bool {
			v := c.s.Store().Snapshot().Volume(nil, volID(name))
			return strings.Contains(strings.Join(v.Status.Observed.Sentences(), "; "), "abnormal: a disk is gone")
		})
		if err := c.delete(name, time.Minute); err != nil {
			t.Error(err)
		}
	}
	c.atRest(p)
}

// TestAVolumeIsNotReadUnlessThatIsEnabled: the call is alpha.
func TestAVolumeIsNotReadUnlessThatIsEnabled(t *testing.T) {
	t.Parallel()
	c, p := reading(t, false)
	c.mustCreate("db", p, volume.SingleNodeWriter)
	c.runJob("user", "db", volume.SingleNodeWriter)
	c.running("user")
	c.stopJob("user")
	if n := timesRead(p); n > 0 {
		t.Errorf("the volume was read %d times", n)
	}
	if err := c.delete("db", time.Minute); err != nil {
		t.Error(err)
	}
	c.atRest(p)
}
