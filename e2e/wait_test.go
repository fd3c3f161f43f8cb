package e2e

import (
	"context"
	"encoding/json"
	"slices"
	"time"

	"berth/api"
)

// patience bounds every wait for a state: far beyond what is normal, because the machine may be busy.
const patience = 2 * time.Minute

type reader[T any] func(context.Context, *api.QueryOptions) (T, *api.QueryMeta, error)

// await reads until the state is as wanted: by blocking queries, so that a change which is not pushed is found out.
func await[T any](m *machine, what string, read reader[T], ok func(T) bool) T {
	m.t.Helper()
	ctx, cancel := context.WithTimeout(m.t.Context(), patience)
	defer cancel()
	var last T
	o := &api.QueryOptions{WaitTime: patience}
	for {
		got, meta, err := read(ctx, o)
		switch {
		case ctx.Err() != nil:
			text, jsonErr := json.MarshalIndent(last, "", "  ")
			if jsonErr != nil {
				text = []byte(jsonErr.Error())
			}
			m.t.Fatalf("waited %s for %s; at last:\n%s", patience, what, text)
		case err != nil && !api.IsNotFound(err):
			m.t.Fatalf("wait for %s: %v", what, err)
		case err != nil:
			select { // an object that does not exist has no index to wait on
			case <-ctx.Done():
			case <-time.After(20 * time.Millisecond):
			}
			continue
		case ok(got):
			return got
		}
		last, o.WaitIndex = got, meta.Index
	}
}

// eventually waits for a fact that no API tells: a process, a file, a line of a record.
func (m *machine) eventually(what string, fact func() bool) {
	m.t.Helper()
	for end := time.Now().Add(patience); !fact(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			m.t.Fatalf("waited %s for %s", patience, what)
		}
	}
}

func (m *machine) awaitPlugin(id string) *api.CSIPlugin {
	m.t.Helper()
	return m.pluginOn(id, 1)
}

// pluginOn waits until a plugin can be used on so many nodes.
func (m *machine) pluginOn(id string, nodes int) *api.CSIPlugin {
	m.t.Helper()
	return await(m, "plugin "+id+" to be healthy",
		func(ctx context.Context, o *api.QueryOptions) (*api.CSIPlugin, *api.QueryMeta, error) {
			return m.api.Plugins().Get(ctx, id, o)
		}, func(p *api.CSIPlugin) bool {
			return p.NodesHealthy == nodes && (!p.ControllerRequired || p.ControllersHealthy >= 1)
		})
}

// allocs of a job, oldest first.
func (m *machine) allocs(job string) reader[[]*api.AllocationListStub] {
	return func(ctx context.Context, o *api.QueryOptions) ([]*api.AllocationListStub, *api.QueryMeta, error) {
		all, meta, err := m.api.Jobs().Allocations(ctx, job, true, o)
		slices.SortFunc(all, func(a, b *api.AllocationListStub) int { return int(a.CreateIndex) - int(b.CreateIndex) })
		return all, meta, err
	}
}

// running waits until a job has n running allocs, and returns them.
func (m *machine) running(job string, n int) []*api.AllocationListStub {
	m.t.Helper()
	is := func(a *api.AllocationListStub) bool {
		return a.ClientStatus == api.AllocClientStatusRunning && a.DesiredStatus == api.AllocDesiredStatusRun
	}
	all := await(m, "job "+job+" to run", m.allocs(job), func(all []*api.AllocationListStub) bool {
		have := 0
		for _, a := range all {
			if is(a) {
				have++
			}
		}
		return have == n
	})
	return slices.DeleteFunc(all, func(a *api.AllocationListStub) bool { return !is(a) })
}

// ended waits until no alloc of a job runs.
func (m *machine) ended(job string) []*api.AllocationListStub {
	m.t.Helper()
	return await(m, "job "+job+" to end", m.allocs(job), func(all []*api.AllocationListStub) bool {
		return !slices.ContainsFunc(all, func(a *api.AllocationListStub) bool {
			return a.ClientStatus == api.AllocClientStatusRunning || a.ClientStatus == api.AllocClientStatusPending
		})
	})
}

// volume waits until a volume is as wanted.
func (m *machine) volume(id, what string, ok func(*api.CSIVolume) bool) *api.CSIVolume {
	m.t.Helper()
	return await(m, "volume "+id+" to be "+what,
		func(ctx context.Context, o *api.QueryOptions) (*api.CSIVolume, *api.QueryMeta, error) {
			return m.api.Volumes().Get(ctx, id, o)
		}, ok)
}

// free waits until nobody claims a volume.
func (m *machine) free(id string) {
	m.t.Helper()
	m.volume(id, "free", func(v *api.CSIVolume) bool {
		return len(v.Allocations) == 0 && len(v.WriteAllocs)+len(v.ReadAllocs) == 0
	})
}
