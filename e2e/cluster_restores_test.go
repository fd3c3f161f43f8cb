package e2e

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"berth/api"
)

// overruledSays is what a server says that has restored a state which the others did not take.
const overruledSays = "the others do not have the state that was restored here"

// trio is three servers, whose agents can be killed in front of any write.
type trio struct {
	t     *testing.T
	all   []*machine
	stops []*stopper
	kept  []string // variables that were acknowledged, and must be there
}

func newTrio(t *testing.T) *trio {
	t.Helper()
	x := &trio{t: t}
	for i := 1; i <= 3; i++ {
		s := watch(t)
		var m *machine
		if i == 1 {
			m = begins(t)
		} else {
			m = joins(t, i, x.all[0].rpc(1))
			x.all[0].joinToken(m, "-role", "server")
		}
		m.wrap = s.wrap
		s.m = m
		m.launch()
		m.answers()
		x.all, x.stops = append(x.all, m), append(x.stops, s)
		x.all[0].voters(i, 0)
	}
	return x
}

// leads is the number of the server that leads, when so many are silent, as one of them says.
func (x *trio) leads(asked, silent int) int {
	x.t.Helper()
	leader := x.all[asked].voters(3, silent)
	return int(leader[1] - '1') // s1.global is the first
}

// keeps writes a variable by an agent, which is to have it acknowledged.
func (x *trio) keeps(m *machine, path string) {
	x.t.Helper()
	m.eventually("variable "+path+" to be taken", func() bool {
		x.attend()
		ctx, cancel := context.WithTimeout(x.t.Context(), 30*time.Second)
		defer cancel()
		_, err := m.api.Variables().Put(ctx, &api.Variable{Path: path, Items: map[string]string{"a": path}}, nil, nil)
		return err == nil
	})
	x.kept = append(x.kept, path)
}

// has is what the server of a machine has, whoever leads: the paths of variables, and what each holds.
func (x *trio) has(m *machine) (out []string, err error) {
	o := &api.QueryOptions{Stale: true}
	all, _, err := m.api.Variables().List(x.t.Context(), o)
	for _, v := range all {
		full, _, missing := m.api.Variables().Get(x.t.Context(), v.Path, o)
		if missing != nil {
			return nil, missing
		}
		out = append(out, fmt.Sprintf("%s=%s", v.Path, full.Items["a"]))
	}
	return out, err
}

// attend starts the agents that do not run, as systemd does: one that ended with an error again.
func (x *trio) attend() {
	x.t.Helper()
	for _, m := range x.all {
		if m.cmd == nil {
			m.launch()
		}
		select {
		case err := <-m.done:
			m.cmd = nil
			if err == nil || !m.logged("level=ERROR", overruledSays) {
				x.t.Fatalf("an agent ended: %v\n%s", err, m.tail())
			}
			m.launch()
		default:
		}
	}
}

// back waits until all servers are well.
func (x *trio) back() {
	x.t.Helper()
	x.all[0].eventually("all three servers to be well", func() bool {
		x.attend()
		return !slices.ContainsFunc(x.all, func(m *machine) bool {
			h, err := m.api.Operator().AutopilotHealth(x.t.Context())
			return err != nil || len(h.Servers) != 3 || slices.ContainsFunc(h.Servers, func(s *api.ServerHealth) bool {
				return !s.Healthy
			})
		})
	})
}

// TestClusterIsKilledInARestore: given three servers and a saved state, when that is restored, and the one that leads,
// or all three, are killed with kill -9 in front of any write on the way, then afterwards all three have the same: the
// state from before, or the saved one, whole; the latter if the restore was acknowledged; and everything that was
// acknowledged since.
func TestClusterIsKilledInARestore(t *testing.T) {
	x := newTrio(t)
	x.keeps(x.all[0], "saved")
	file, _, err := x.all[0].api.Operator().SaveSnapshot(t.Context())
	must(t, err)
	saved, err := io.ReadAll(file)
	must(t, err)
	must(t, file.Close())
	points := []int{2, 5}
	if *playLong {
		points = make([]int, 16)
		for i := range points {
			points[i] = i
		}
	}
	kinds := map[string]int{}
	for _, n := range points {
		for _, three := range []bool{false, true} {
			if three && n%2 > 0 && *playLong {
				continue
			}
			kinds[x.killedAt(n, three, saved)]++
			if t.Failed() {
				return
			}
		}
	}
	t.Logf("%v", kinds)
	for _, m := range x.all {
		if m.logged("level=ERROR", overruledSays) {
			m.alarm = overruledSays
		}
	}
}

// killedAt restores the state, with a kill in front of the leader's n-th write, and returns what came of it.
func (x *trio) killedAt(n int, three bool, saved []byte) string {
	x.t.Helper()
	what := fmt.Sprintf("killed at write %d, all three: %t", n, three)
	lead := x.leads(0, 0)
	x.keeps(x.all[lead], fmt.Sprintf("before-%d-%t", n, three))
	before := slices.Clone(x.kept)
	m := x.all[lead]
	ctx, cancel := context.WithTimeout(x.t.Context(), 2*patience)
	defer cancel()
	answered := make(chan error, 1)
	fired := x.stops[lead].arm("agent", "agent", n)
	go func() { answered <- m.api.Operator().RestoreSnapshot(ctx, bytes.NewReader(saved)) }()
	var err error
	where := ""
	select {
	case where = <-fired:
		err = <-answered
	case err = <-answered:
		if late := x.stops[lead].disarm(); late != "" {
			where = late
		}
	}
	acknowledged := err == nil
	if where != "" {
		<-m.done
		m.cmd = nil
		m.api.CloseIdle()
	}
	other := (lead + 1) % 3
	since := fmt.Sprintf("since-%d-%t", n, three)
	switch {
	case where == "": // it was over before
	case three:
		for _, o := range x.all {
			if o != m {
				o.kill()
			}
		}
		for i := range x.all { // the others first
			x.all[(lead+1+i)%3].launch()
		}
	default:
		x.leads(other, 1)
		x.keeps(x.all[other], since)
	}
	x.back()
	x.keeps(x.all[other], since+"-all")
	return x.compare(what+" "+where, before, acknowledged)
}

// compare wants all to have the same, and that to be one of the two states with what came since.
func (x *trio) compare(what string, before []string, acknowledged bool) string {
	x.t.Helper()
	came := x.kept[len(before):]
	var got []string
	x.all[0].eventually("all servers to have the same", func() bool {
		x.attend()
		for i, m := range x.all {
			has, err := x.has(m)
			if err != nil || i > 0 && !slices.Equal(has, got) {
				return false
			}
			got = has
		}
		return true
	})
	state := func(paths ...string) []string {
		slices.Sort(paths)
		var out []string
		for _, p := range paths {
			out = append(out, p+"="+p)
		}
		return out
	}
	old, restored := state(slices.Concat(before, came)...), state(slices.Concat([]string{"saved"}, came)...)
	switch {
	case slices.Equal(got, restored):
		x.kept = slices.Concat([]string{"saved"}, came)
		return "the saved state"
	case slices.Equal(got, old) && !acknowledged:
		return "the state from before"
	}
	x.t.Errorf("%s: the servers have\n%s\nand not\n%s\nor\n%s; acknowledged: %t", what, strings.Join(got, " "),
		strings.Join(old, " "), strings.Join(restored, " "), acknowledged)
	return ""
}
