package proxy_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/moby/sys/mountinfo"
	"google.golang.org/grpc/codes"

	"berth/internal/base/fault"
	"berth/internal/base/redact"
	"berth/internal/conformance/csi/csitest"
	"berth/internal/conformance/csi/proxy"
	"berth/internal/model/volume"
	"berth/internal/port/csi"
)

var use = csi.VolumeCapability{AccessMode: volume.SingleNodeWriter, AttachmentMode: volume.FileSystem}

func ok(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func create(t *testing.T, c *csi.Client) csi.Volume {
	t.Helper()
	v, err := c.CreateVolume(t.Context(),
		csi.CreateVolumeRequest{Name: "db", Capabilities: []csi.VolumeCapability{use}})
	ok(t, err)
	return v
}

func TestTheRecordShowsEverythingButSecrets(t *testing.T) {
	p := csitest.Alone(t, csitest.Options{})
	c := p.Connect()
	_, err := c.CreateVolume(t.Context(), csi.CreateVolumeRequest{Name: "db", Capabilities: []csi.VolumeCapability{use},
		Secrets: redact.MapOf(map[string]string{"password": "S3CR3T"})})
	ok(t, err)
	raw, err := os.ReadFile(p.Record)
	ok(t, err)
	if strings.Contains(string(raw), "S3CR3T") {
		t.Error("the record holds a secret")
	}
	all := p.Entries()
	begin, end := all[len(all)-2], all[len(all)-1]
	if begin.Kind != proxy.CallBegins || begin.RPC != "CreateVolume" || begin.Volume != "db" ||
		begin.Mode != "SINGLE_NODE_WRITER" || begin.Hash == "" || !strings.Contains(string(begin.Request), "***") {
		t.Errorf("begin = %+v", begin)
	}
	if end.Kind != proxy.CallEnds || end.Call != begin.Call || end.Code != "OK" || !end.Reached ||
		!strings.Contains(string(end.Answer), "vol-000001") {
		t.Errorf("end = %+v", end)
	}
	other, err := c.CreateVolume(t.Context(),
		csi.CreateVolumeRequest{Name: "db", Capabilities: []csi.VolumeCapability{use},
			Secrets: redact.MapOf(map[string]string{"password": "rotated"})})
	ok(t, err)
	all = p.Entries()
	if other.ID != "vol-000001" || all[len(all)-1].Hash != begin.Hash {
		t.Error("another secret makes another request")
	}
}

func TestFlippedCapabilityIsWhatTheCallerSees(t *testing.T) {
	p := csitest.Alone(t,
		csitest.Options{
			Rules: []string{"(ControllerGetCapabilities * flip-capability CREATE_DELETE_VOLUME)",
				"(NodeGetCapabilities * flip-capability GET_VOLUME_STATS)",
				"(GetPluginCapabilities * flip-capability VOLUME_ACCESSIBILITY_CONSTRAINTS)"},
		})
	i, _ := p.Connect().Instance()
	if i.Controller.Has(csi.CapCreateDelete) || i.Node.Has(csi.CapStats) || !i.TopologyAware() {
		t.Errorf("instance = %+v", i)
	}
}

func TestDelayAndCountsOfRules(t *testing.T) {
	p := csitest.Alone(t,
		csitest.Options{
			Rules: []string{`(DeleteVolume "a" delay 1h once)`, `(DeleteVolume "b" before PermissionDenied from 2)`},
		})
	c := p.Connect()
	del := func(id string) error { return c.DeleteVolume(t.Context(), csi.DeleteVolumeRequest{VolumeID: id}) }
	ctx, cancel := context.WithTimeout(t.Context(), 80*time.Millisecond) // runs out while the rule delays the call
	defer cancel()
	if err := c.DeleteVolume(ctx, csi.DeleteVolumeRequest{VolumeID: "a"}); csi.FinalityOf(err) != csi.Unknown {
		t.Errorf("the delayed call: %v", err)
	}
	ok(t, del("b"))
	if err := del("b"); csi.CodeOf(err) != codes.PermissionDenied || csi.RetryOf(err) != volume.RetrySlow {
		t.Errorf("second call: %v", err)
	}
}

func TestMountsOnBehalfOfAPluginThatDoesNotMount(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("mounting needs root")
	}
	f := csitest.Fake{
		Mount:      csitest.MountNothing,
		Controller: csi.Caps[csi.ControllerCap]{csi.CapCreateDelete},
		Node:       csi.Caps[csi.NodeCap]{},
	}
	p := csitest.Alone(t, csitest.Options{Fake: f, Rules: []string{"(* * mount-tmpfs)"}})
	c := p.Connect()
	v := create(t, c)
	target := filepath.Join(filepath.Dir(p.Socket), "t")
	ok(t, c.Publish(t.Context(),
		csi.PublishRequest{VolumeID: v.ID, TargetPath: target, Capability: use, ReadOnly: true}))
	if err := os.WriteFile(filepath.Join(target, "x"), nil, 0o600); !errors.Is(err, syscall.EROFS) {
		t.Errorf("write to a read-only publication: %v", err)
	}
	p.LoseMounts()
	if mounted, err := mountinfo.Mounted(target); err != nil || mounted {
		t.Errorf("the mount is still there: %v", err)
	}
	ok(t, c.Unpublish(t.Context(), csi.UnpublishRequest{VolumeID: v.ID, TargetPath: target}))
	if _, err := os.Stat(target); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the target is still there: %v", err)
	}
}

func TestTheOracleCatchesWhatATestDoes(t *testing.T) {
	p := csitest.Alone(t, csitest.Options{Unjudged: "it breaks a rule on purpose and asks for the judgement itself"})
	c := p.Connect()
	v := create(t, c)
	_, err := c.Attach(t.Context(), csi.AttachRequest{VolumeID: v.ID, NodeID: "node-a", Capability: use})
	ok(t, err)
	if err := c.DeleteVolume(t.Context(),
		csi.DeleteVolumeRequest{VolumeID: v.ID}); csi.CodeOf(err) != codes.FailedPrecondition {
		t.Fatalf("the strict fake deletes an attached volume: %v", err)
	}
	watch := &failures{TB: t}
	csitest.JudgeFor(watch, p)
	if len(watch.texts) != 1 || !strings.Contains(watch.texts[0], "I8: deleted while its attachment") {
		t.Errorf("the oracle says %q", watch.texts)
	}
}

// failures collects what a judge reports instead of failing this test.
type failures struct {
	testing.TB
	texts []string
}

func (f *failures) Helper() {}
func (f *failures) Errorf(format string, args ...any) {
	f.texts = append(f.texts, strings.TrimSpace(fmt.Sprintf(format, args...)))
}

// task runs csi-proxy as a supervisor would: with CSI_ENDPOINT, in a process of its own.
func task(t *testing.T, args ...string) (socket string, cmd *exec.Cmd, ended chan error) {
	t.Helper()
	dir, err := os.MkdirTemp("", "c")
	ok(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	socket = filepath.Join(dir, "csi.sock")
	for i := range args {
		args[i] = strings.ReplaceAll(args[i], "DIR", dir)
	}
	cmd = exec.Command(csitest.Binary(t), args...)
	cmd.Env = append(os.Environ(), "CSI_ENDPOINT=unix://"+socket)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	ok(t, cmd.Start())
	ended = make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		if t.Failed() {
			t.Log(out.String())
		}
	})
	return socket, cmd, ended
}

func dial(t *testing.T, socket string) *csi.Client {
	t.Helper()
	deadline := time.Now().Add(time.Minute)
	for {
		c, err := csi.Dial(t.Context(), socket, csi.Options{Plugin: "p"})
		if err == nil {
			t.Cleanup(func() { _ = c.Close() })
			return c
		}
		if time.Now().After(deadline) || !fault.Has(err, fault.Unavailable) {
			t.Fatal(err)
		}
		time.Sleep(10 * time.Millisecond)
	}
}

func TestAsATaskItLivesAndDiesWithItsPlugin(t *testing.T) {
	socket, _, ended := task(t,
		csitest.FakeArgs(t, "p", "DIR/record", "DIR/rules", csitest.Fake{NodeID: "n1", Dir: "DIR/backend"})...)
	c := dial(t, socket)
	_, err := c.Negotiate(t.Context(), csi.RoleMonolith)
	ok(t, err)
	create(t, c)
	record := filepath.Join(filepath.Dir(socket), "record")
	all, err := proxy.ReadRecord(record)
	ok(t, err)
	pid := all[0].PID
	if all[0].Kind != proxy.PluginStarts || pid == 0 {
		t.Fatalf("the record begins with %s", all[0])
	}
	ok(t, syscall.Kill(pid, syscall.SIGKILL))
	select {
	case err := <-ended:
		if err == nil {
			t.Error("a crash of the plugin is taken for a good end")
		}
	case <-time.After(time.Minute):
		t.Fatal("the proxy outlives its plugin")
	}
	<-c.Lost()
}

func TestAsATaskItsCrashIsOneOfTheTask(t *testing.T) {
	args := csitest.FakeArgs(t, "p", "DIR/record", "DIR/rules", csitest.Fake{NodeID: "n1", Dir: "DIR/backend"})
	socket, _, ended := task(t, args...)
	c := dial(t, socket)
	_, err := c.Negotiate(t.Context(), csi.RoleMonolith)
	ok(t, err)
	ok(t, proxy.WriteRules(filepath.Join(filepath.Dir(socket), "rules"), "(DeleteVolume * crash-after)"))
	if err := c.DeleteVolume(t.Context(), csi.DeleteVolumeRequest{VolumeID: "v"}); csi.FinalityOf(err) != csi.Unknown {
		t.Errorf("err = %v", err)
	}
	select {
	case err := <-ended:
		var exit *exec.ExitError
		if !errors.As(err, &exit) {
			t.Errorf("the crash ends the task with %v", err)
		}
	case <-time.After(time.Minute):
		t.Fatal("the proxy outlives its plugin")
	}
}

func TestAsATaskItEndsItsPluginOnASignal(t *testing.T) {
	socket, cmd, ended := task(t,
		csitest.FakeArgs(t, "p", "DIR/record", "DIR/rules", csitest.Fake{NodeID: "n1", Dir: "DIR/backend"})...)
	dial(t, socket)
	all, err := proxy.ReadRecord(filepath.Join(filepath.Dir(socket), "record"))
	ok(t, err)
	ok(t, cmd.Process.Signal(syscall.SIGTERM))
	select {
	case err := <-ended:
		ok(t, err)
	case <-time.After(time.Minute):
		t.Fatal("the proxy does not end")
	}
	if err := syscall.Kill(all[0].PID, 0); !errors.Is(err, syscall.ESRCH) {
		t.Errorf("the plugin outlives its proxy: %v", err)
	}
}

func TestThePluginReceivesAnotherEndpoint(t *testing.T) {
	dir := t.TempDir()
	c := proxy.Command{
		Args: []string{"sh", "-c", `printf '%s|%s|%s|%s' "$CSI_ENDPOINT" "$OTHER" "$1" "$2" >` + dir + "/out", "x",
			"--endpoint=unix:///pub/csi.sock", "/pub/csi.sock"},
		Env: []string{"OTHER=unix:///pub/csi.sock", "CSI_ENDPOINT=unix:///pub/csi.sock", "PATH=" + os.Getenv("PATH")},

		Endpoint: "unix:///pub/csi.sock",
	}
	pid := 0
	ok(t, c.Run(context.Background(), "/priv/p.sock", func(n int) { pid = n }))
	b, err := os.ReadFile(filepath.Join(dir, "out"))
	ok(t, err)
	if got, want := string(b),
		"unix:///priv/p.sock|unix:///priv/p.sock|--endpoint=unix:///priv/p.sock|/priv/p.sock"; got != want || pid == 0 {
		t.Errorf("the plugin received %s (pid %d)", got, pid)
	}
}

func TestAProxyWithoutItsNecessitiesIsRefused(t *testing.T) {
	serve := proxy.Serving(func(context.Context, string) error { return nil })
	for name, cfg := range map[string]proxy.Config{
		"relative endpoint": {Endpoint: "csi.sock", Record: "/r", Backend: serve},
		"no record":         {Endpoint: "/csi.sock", Backend: serve},
		"no plugin":         {Endpoint: "/csi.sock", Record: "/r"},
	} {
		if _, err := proxy.New(cfg); err == nil {
			t.Errorf("%s is accepted", name)
		}
	}
}

func TestAPluginThatEndsAtOnceIsAnError(t *testing.T) {
	dir := t.TempDir()
	broken := errors.New("wrong arguments")
	err := proxy.Run(t.Context(),
		proxy.Config{Endpoint: filepath.Join(dir, "s"), Record: filepath.Join(dir, "r"), Plugin: "p",
			Backend: proxy.Serving(func(context.Context, string) error { return broken })})
	if !errors.Is(err, broken) {
		t.Errorf("err = %v", err)
	}
}
