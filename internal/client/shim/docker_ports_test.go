package shim_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"berth/internal/port/driver"
	"berth/internal/testkit/dockerd"
)

// Given ports of a group that has no network of its own, when a container of it names them, then they are at the node's
// addresses: at the same number inside or at another, by TCP and UDP, by IPv4 and IPv6, and one that is for one address
// is at no other.
func TestPortsOfContainersArePublished(t *testing.T) {
	t.Parallel()
	dockerd.Needed(t)
	dir, err := os.MkdirTemp("/tmp", "net")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	at := filepath.Join(dir, "ns")
	namespace(t, at)
	inside := func(input string, argv ...string) (string, error) {
		cmd := exec.Command("nsenter", append([]string{"--net=" + at}, argv...)...)
		cmd.Stdin = strings.NewReader(input)
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	if out, err := inside("", "ip", "link", "set", "lo", "up"); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	p := newDocked(t, dockerd.NewPublishing(t, at), "docker-ports-"+slice)
	d := p.agent()
	p.says(driver.Healthy)
	cfg := p.attacker("web", "echo here >/local/word; for n in 80 18080; do httpd -p $n -h /local; done; echo up; "+
		"while ! test -e /local/go; do sleep 0.1; done")
	cfg.Ports = []driver.Port{
		{Label: "same", Value: 18080},
		{Label: "other", Value: 18081, To: 80},
		{Label: "one", Value: 18082, To: 80, HostIP: "127.0.0.2"},
		{Label: "udp", Value: 18083, To: 5353},
		{Label: "unnamed", Value: 18084, To: 80},
	}
	cfg.Config["ports"] = []any{"same", "other", "one", "udp"}
	task := p.start(d, cfg)
	p.logged(cfg, "up\n")
	for url, there := range map[string]bool{
		"127.0.0.1:18080": true,
		"127.0.0.1:18081": true,
		"[::1]:18081":     true,
		"127.0.0.2:18082": true,
		"127.0.0.1:18082": false,
		"127.0.0.1:18084": false,
	} {
		out, err := inside("", "busybox", "wget", "-q", "-O", "-", "http://"+url+"/word")
		if there != (err == nil && out == "here\n") {
			t.Errorf("%s is there: %v; it answers %q, %v", url, there, out, err)
		}
	}
	const bind = "exec 3<>/dev/udp/127.0.0.1/18083 && echo x >&3 && busybox netstat -lun"
	if out, err := inside("", "bash", "-c", bind); err != nil || !strings.Contains(out, ":18083 ") {
		t.Errorf("UDP is not published: %v: %s", err, out)
	}
	p.over(task)
	for range 100 {
		if _, err = inside("", "busybox", "wget", "-q", "-O", "-", "http://127.0.0.1:18081/word"); err != nil {
			break
		}
		time.Sleep(20 * time.Millisecond)
	}
	if err == nil {
		t.Error("a port is still published")
	}
}
