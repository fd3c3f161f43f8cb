package localcsi

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/moby/sys/mountinfo"

	"berth/internal/conformance/csi/csitest"
	"berth/internal/conformance/csi/oracle"
	"berth/internal/conformance/csi/proxy"
)

// judged is a world whose plugin stands behind the recording proxy. The test makes the calls itself, as an orchestrator
// that knows what it has made.
type judged struct{ *crashWorld }

// negotiate asks a run of the plugin what it offers, as whoever calls it does first.
func (j *judged) negotiate() {
	j.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	for {
		_, err := csi.NewIdentityClient(j.conn).GetPluginCapabilities(ctx, &csi.GetPluginCapabilitiesRequest{})
		if err == nil {
			_, err = j.ctl.ControllerGetCapabilities(ctx, &csi.ControllerGetCapabilitiesRequest{})
		}
		if err == nil {
			_, err = j.node.NodeGetCapabilities(ctx, &csi.NodeGetCapabilitiesRequest{})
		}
		if err == nil {
			return
		}
		select {
		case <-ctx.Done():
			j.t.Fatal(err)
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// Witness implements csitest.World.
func (j *judged) Witness(proxy.Entry) *proxy.Observation { return nil }

// Facts implements csitest.World: what the plugin's own records and the mount table have is held against what its calls
// have made.
func (j *judged) Facts(*csitest.Plugin) oracle.Facts {
	const why = "the test makes the calls itself: there is no orchestrator"
	f := oracle.Facts{
		Processes: oracle.Nobody(why),
		Holders:   oracle.Nobody(why),
		Writers:   oracle.Nobody(why),
		Tasks:     oracle.None[oracle.TaskStart](why),
		Shown:     oracle.None[oracle.Shown](why),
		Works:     oracle.None[oracle.Work](why),
		Secrets:   oracle.Feed[string](),
		Texts:     oracle.None[oracle.Text](why + " that writes anything"),
		Strays:    oracle.Feed[oracle.Stray](),
		Ends:      oracle.None[oracle.End](why),
		Obeyed:    oracle.None[oracle.Obeyed](why),
		Quiet:     oracle.None[oracle.Quiet](why),
		Provider:  oracle.Feed[oracle.Thing](),
		Records:   oracle.Feed[oracle.Record](),
		MinPause:  time.Millisecond, // the callers of this package's tests are in a hurry
	}
	for _, dir := range []string{"volumes", "snapshots"} {
		left, err := os.ReadDir(filepath.Join(j.cfg.DataDir, dir))
		if err != nil {
			j.t.Error(err)
		}
		for _, e := range left {
			f.Provider.Add(oracle.Thing{ID: e.Name(), Name: e.Name()})
		}
	}
	rest := oracle.Rest{}
	mounts, err := mountinfo.GetMounts(mountinfo.PrefixFilter(j.base))
	if err != nil {
		j.t.Error(err)
	}
	for _, m := range mounts {
		rest.Mounts = append(rest.Mounts, m.Mountpoint)
	}
	f.Rest = oracle.Feed(rest)
	return f
}

// Given the bundled plugin behind the recording proxy, when everything that happens to volumes happens, calm, with
// answers that are lost, and with a plugin that dies in front of and after calls, then the oracle finds nothing in the
// record, and what the plugin has is what its calls have made.
func TestTheOracleFindsNothingInTheRecordOfTheBundledPlugin(t *testing.T) {
	for name, rules := range map[string][]string{
		"calm": nil,
		"answers are lost": {
			"(CreateVolume * after-effect Unavailable once)",
			"(NodeStage * after-effect Unavailable once)",
			"(NodePublish * after-effect Unavailable once)",
			"(NodeUnpublish * after-effect Unavailable once)",
			"(NodeUnstage * after-effect Unavailable once)",
			"(DeleteVolume * after-effect Unavailable once)",
		},
		"it dies": {
			"(CreateVolume * crash-after once)",
			"(CreateSnapshot * crash-before once)",
			"(NodeStage * crash-after once)",
			"(NodePublish * crash-after once)",
			"(NodeUnstage * crash-before once)",
			"(DeleteVolume * crash-after once)",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			j := &judged{newCrashWorld(t, "")}
			w := j.crashWorld
			p := csitest.New(t, csitest.Options{
				Plugin: "own",
				Fake:   csitest.Fake{NodeID: testNode},
				Socket: w.socket(),
				Backend: proxy.Command{
					Args:     []string{os.Args[0]},
					Env:      w.childEnv(order{}),
					Endpoint: w.cfg.Endpoint,
					Out:      os.Stderr,
					Grace:    10 * time.Second,
				},
				World: j,
				Rules: rules,
			})
			w.dial()
			w.again = j.negotiate
			j.negotiate()
			w.everything("ext4")
			if calls := p.Calls(); len(calls) < 20 {
				t.Errorf("the record holds %d calls: %v", len(calls), calls)
			}
			w.clean()
		})
	}
}
