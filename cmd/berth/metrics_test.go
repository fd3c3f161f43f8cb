package main

import (
	"context"
	"errors"
	"io"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"berth/internal/testkit/reference"
)

// sample is a line of Prometheus' text format.
var sample = regexp.MustCompile(`^(\w+)(?:\{(.*)\})? \S+$`)

// labelName is the name of a label in it.
var labelName = regexp.MustCompile(`(?:^|,)(\w+)="`)

// metrics are those of an agent, with their help and the names of their labels.
func (a *agentProcess) metrics(ctx context.Context) (helps, labels map[string]string, err error) {
	req, err := http.NewRequestWithContext(ctx, "GET", a.api.Config().Address+"/v1/metrics?format=prometheus", nil)
	if err != nil {
		return nil, nil, err
	}
	resp, err := http.DefaultTransport.RoundTrip(req)
	if err != nil {
		return nil, nil, err
	}
	text, err := io.ReadAll(resp.Body)
	err = errors.Join(err, resp.Body.Close())
	helps, labels = map[string]string{}, map[string]string{}
	for line := range strings.Lines(string(text)) {
		if help, is := strings.CutPrefix(line, "# HELP "); is {
			name, help, _ := strings.Cut(strings.TrimSpace(help), " ")
			helps[name] = help
		} else if m := sample.FindStringSubmatch(strings.TrimSpace(line)); m != nil {
			var names []string
			for _, l := range labelName.FindAllStringSubmatch(m[2], -1) {
				names = append(names, l[1])
			}
			slices.Sort(names)
			labels[m[1]] = strings.Join(names, ", ")
		}
	}
	return helps, labels, err
}

// Given an agent with a storage plugin, then the page of metrics has each that the agent tells, with its labels and its
// help; and those that it has besides are of volumes, of which there is none.
func TestEveryMetricOfAnAgentIsOnItsPage(t *testing.T) {
	needRoot(t)
	a := start(t, "-dev")
	a.until("the bundled plugin is healthy", func(ctx context.Context) error { return pluginHealthy(ctx, a.api) })
	helps, labels, err := a.metrics(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	met := map[string]bool{}
	rows := reference.Open(t, "reference/metrics.md").Rows()
	for _, name := range slices.Sorted(maps.Keys(helps)) {
		i := slices.IndexFunc(rows, func(r []string) bool {
			prefix, many := strings.CutSuffix(reference.Plain(r[0]), "*")
			return prefix == name || many && strings.HasPrefix(name, prefix)
		})
		if i < 0 {
			t.Errorf("the page does not have %s (%s)", name, helps[name])
			continue
		}
		met[rows[i][0]] = true
		said := strings.ReplaceAll(reference.Plain(rows[i][1]), "-", "")
		if said != labels[name] || reference.Plain(rows[i][2]) != helps[name] {
			t.Errorf("the agent tells %s {%s} %s, the page says %q", name, labels[name], helps[name], rows[i])
		}
	}
	for _, r := range rows {
		if name := reference.Plain(r[0]); !met[r[0]] && !strings.HasPrefix(name, "berth_volumes_") &&
			!strings.HasPrefix(name, "berth_client_volume_") && !strings.HasPrefix(name, "berth_client_consul_") {
			t.Errorf("the agent does not tell %s", name)
		}
	}
	a.signal(syscall.SIGINT)
	if err := a.wait(time.Minute); err != nil {
		t.Error(err)
	}
}
