package e2e

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"berth/api"
)

// TestHowFullAVolumeIsIsSeen: half of a volume of the bundled plugin is filled by its task, and everybody can see that:
// the API, the command line and the metrics. When nobody uses it any more, nobody says anything of it.
func TestHowFullAVolumeIsIsSeen(t *testing.T) {
	m := prepare(t, true)
	config := filepath.Join(m.root, "agent.hcl")
	text, err := os.ReadFile(config)
	must(t, err)
	often := bytes.Replace(text, []byte("client {"), []byte("client {\n  volume_stats_interval = \"5s\""), 1)
	must(t, os.WriteFile(config, often, 0o600))
	m.start()
	m.awaitPlugin("local-csi")
	m.create("half", "local-csi")
	m.run(writer{id: "user", volume: "half", script: `
size=$(df -k -P /data | awk 'NR == 2 { print $2 }')
head -c $((size * 1024 / 2)) /dev/zero > /data/ballast
sync
while :; do sleep 1; done`}.hcl())
	user := m.running("user", 1)[0]
	var seen api.CSIVolumeNodeUsage
	m.eventually("half of the volume is seen to be used", func() bool {
		use, _, err := m.api.Volumes().Usage(t.Context(), "half", nil)
		must(t, err)
		if len(use.Nodes) != 1 || use.Nodes[0].Bytes == nil {
			return false
		}
		seen = use.Nodes[0]
		return seen.Bytes.Used >= seen.Bytes.Total/2
	})
	if len(seen.Allocations) != 1 || seen.Allocations[0] != user.ID || seen.NodeID != user.NodeID ||
		seen.Bytes.Used > seen.Bytes.Total*3/4 || seen.Inodes == nil || seen.Inodes.Used == 0 || seen.Measured == nil {
		t.Errorf("it is seen as %+v, %+v, %+v", seen, seen.Bytes, seen.Inodes)
	}
	out, code := m.cli("volume", "status", "half")
	if code != 0 || !strings.Contains(out, "Usage\n") || !strings.Contains(out, "(5") {
		t.Errorf("volume status says, with code %d:\n%s", code, out)
	}
	sample := fmt.Sprintf(
		`berth_client_volume_used_bytes{namespace="default",node_id=%q,plugin="local-csi",volume="half"} `, user.NodeID)
	if status, text := m.request("/v1/metrics?format=prometheus"); status != 200 || !strings.Contains(text, sample) {
		t.Errorf("the metrics say, with status %d:\n%s", status, text)
	}
	m.stopJob("user")
	m.free("half")
	use, _, err := m.api.Volumes().Usage(t.Context(), "half", nil)
	must(t, err)
	if len(use.Nodes) > 0 {
		t.Errorf("in use by nobody, it is seen as %+v", use.Nodes)
	}
	m.remove("half")
}
