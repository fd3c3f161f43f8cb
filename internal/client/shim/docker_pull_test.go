package shim_test

import (
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"berth/internal/base/fault"
	"berth/internal/port/driver"
	"berth/internal/port/driver/docker"
	"berth/internal/testkit/dockerd"
)

// Given a registry that takes connections and answers nothing, then a pull is given up after the time of the job's, or
// of the agent's, or when nothing has come for a while; the error says which setting that is, and events say what is
// waited for.
func TestAPullFromASilentRegistryIsGivenUp(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() }) // it was used
	p := newDocked(t, dockerd.New(t), "docker-silence-"+slice)
	var mu sync.Mutex
	var said []string
	image := l.Addr().String() + "/team/x:1"
	for _, k := range []struct {
		job             string
		agent, activity time.Duration
		says            string
	}{
		{"300ms", time.Hour, time.Hour, "it has not come within 300ms (raise image_pull_timeout in the task's config"},
		{"", 300 * time.Millisecond, time.Hour, "it has not come within 300ms"},
		{"", time.Hour, 300 * time.Millisecond, "nothing of it came for 300ms (the agent's pull_activity_timeout"},
	} {
		d := p.agent(func(c *docker.Config) {
			c.Images.PullTimeout, c.Images.PullActivityTimeout = k.agent, k.activity
			c.Events = func(e docker.Event) {
				mu.Lock()
				defer mu.Unlock()
				said = append(said, e.Message)
			}
		})
		p.says(driver.Healthy)
		cfg := p.config("web")
		cfg.Config["image"] = image
		if k.job != "" {
			cfg.Config["image_pull_timeout"] = k.job
		}
		_, err := d.Start(t.Context(), cfg)
		if !fault.Has(err, fault.Timeout) || !strings.Contains(err.Error(), k.says) ||
			!strings.Contains(err.Error(), image) {
			t.Errorf("%+v: %v", k, err)
		}
	}
	mu.Lock()
	defer mu.Unlock()
	if len(said) != 3 || said[0] != "Downloading image "+image {
		t.Errorf("the events are %q", said)
	}
	if all := p.daemon.Containers(); len(all) > 0 {
		t.Errorf("there are %q", all)
	}
}
