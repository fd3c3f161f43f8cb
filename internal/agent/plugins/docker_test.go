package plugins

import (
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"berth/internal/base/fault"
	"berth/internal/testkit/reference"
	"berth/jobspec/listing"
)

// Given the block of the driver docker, then its page has each of its settings with its type, and the names that are
// refused.
func TestThePageOfDockersBlockIsWhole(t *testing.T) {
	p := reference.Open(t, "reference/drivers.md")
	there := map[string]string{}
	for _, e := range listing.Of("docker", reflect.TypeFor[DockerOptions](), nil) {
		if e.Type == "block" {
			continue
		}
		there[strings.ReplaceAll(strings.TrimPrefix(e.In+"/"+e.Name, "docker/"), "/", ".")] = e.Type
	}
	rows := p.Section("The agent's block").Rows
	p.Same("a setting of docker", reference.Column(rows, 0), slices.Sorted(maps.Keys(there)))
	for _, row := range rows {
		if want := there[reference.Plain(row[0])]; row[1] != want {
			t.Errorf("%s is of the type %q, the page says %q", row[0], want, row[1])
		}
	}
	for _, list := range p.Section("The agent's block").Lists() {
		p.Same("a setting that is refused", list, slices.Sorted(maps.Keys(dockerRefusals)))
	}
}

// Given settings that cannot be, then they are refused by name; and what is set reaches the driver.
func TestDockersBlockIsJudged(t *testing.T) {
	text, none := "tcp://1.2.3.4:2375", 0
	short := -time.Second
	for names, o := range map[string]DockerOptions{
		"endpoint":              {Endpoint: &text},
		"pids_limit":            {PIDsLimit: &none},
		"auth config":           {Auth: &DockerAuth{Config: "relative"}},
		"auth helper":           {Auth: &DockerAuth{Helper: "/bin/sh"}},
		"pull_activity_timeout": {PullActivityTimeout: &short},
	} {
		p := Plugin{Name: "docker", Docker: &Docker{Config: &o}}
		if err := p.Check(""); !fault.Has(err, fault.Invalid) || !strings.Contains(err.Error(), names) {
			t.Errorf("%s: %v", names, err)
		}
	}
	socket := "unix:///run/d.sock"
	no, yes := false, true
	p := Plugin{Name: "docker", Docker: &Docker{Config: &DockerOptions{Endpoint: &socket, AllowPrivileged: &yes,
		GC:      &DockerGC{Image: &no, Dangling: &DockerDangling{Enabled: &no}},
		Volumes: &DockerVolumes{Enabled: &yes}}}}
	c, err := p.DockerConfig()
	if err != nil || c.Socket != "/run/d.sock" || !c.AllowPrivileged || !c.AllowVolumes || !c.Images.Keep ||
		!c.SweepOff {
		t.Errorf("it becomes %+v, %v", c, err)
	}
}
