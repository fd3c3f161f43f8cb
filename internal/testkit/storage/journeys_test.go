package storage

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"berth/internal/conformance/csi/csitest"
	"berth/internal/model/volume"
)

// TestAVolumesWholeWay goes the whole way: create, attach, stage, publish, use, and everything back in order.
func TestAVolumesWholeWay(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	p := c.startPlugin(csitest.Fake{})
	m := c.member("one", p)
	c.awaitPlugin(p.ID)
	c.mustCreate("db", p, volume.SingleNodeWriter)
	c.runJob("web", "db", volume.SingleNodeWriter)
	a := c.running("web")
	if err := os.WriteFile(filepath.Join(m.path(a), "x"), []byte("1"), 0o600); err != nil {
		t.Fatal(err)
	}
	before := len(p.Calls())
	if err := c.delete("db", 0); err == nil || !strings.Contains(err.Error(), "volume in use") {
		t.Errorf("a volume in use: %v", err)
	}
	if got := p.Calls()[before:]; len(got) != 0 {
		t.Errorf("the refusal called %v", got)
	}
	c.stopJob("web")
	if err := c.delete("db", 50*time.Second); err != nil {
		t.Errorf("the deletion that waits for the release: %v", err)
	}
	want := "CreateVolume ControllerPublishVolume NodeStageVolume NodePublishVolume NodeUnpublishVolume " +
		"NodeUnstageVolume ControllerUnpublishVolume DeleteVolume"
	if got := strings.Join(p.Calls(), " "); got != want {
		t.Errorf("calls\n%s, want\n%s", got, want)
	}
	c.atRest(p)
}
