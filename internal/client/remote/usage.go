package remote

import (
	"context"
	"runtime"
	"sync"
	"time"

	"berth/internal/base/ids"
	"berth/internal/base/retry"
	"berth/internal/client/fingerprint"
	"berth/internal/port/driver"
	"berth/internal/wire"
)

// sampleGap is how far apart the two readings are that a first percentage is made from.
const sampleGap = 100 * time.Millisecond

// usage remembers the last reading of each task and of the host, to turn totals into rates.
type usage struct {
	mu    sync.Mutex
	tasks map[string]driver.Stats
	host  *fingerprint.HostUsage
}

// last returns and replaces the reading of a task.
func (u *usage) last(key string, now driver.Stats) (driver.Stats, bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.tasks == nil {
		u.tasks = map[string]driver.Stats{}
	}
	old, ok := u.tasks[key]
	u.tasks[key] = now
	return old, ok && now.CPUNanos >= old.CPUNanos && now.Time.Sub(old.Time) >= sampleGap/2
}

func (u *usage) lastHost(now *fingerprint.HostUsage) *fingerprint.HostUsage {
	u.mu.Lock()
	defer u.mu.Unlock()
	old := u.host
	u.host = now
	return old
}

func (m *Methods) runStats(ctx context.Context, r *wire.AgentRef) (*wire.AllocStatsReply, error) {
	a, err := m.target(*r)
	if err != nil {
		return nil, err
	}
	reply := &wire.AllocStatsReply{Tasks: map[string]wire.Usage{}}
	for _, name := range a.Tasks() {
		t, err := a.Task(name)
		if err != nil {
			return nil, err
		}
		live, err := t.Live()
		if err != nil {
			continue // a task that does not run uses nothing
		}
		use, err := m.taskUsage(ctx, r.Alloc, name, live)
		if err != nil {
			return nil, err
		}
		reply.Tasks[name] = use
		reply.Total = sum(reply.Total, use)
	}
	if m.cfg.Disks != nil {
		if d, measured := m.cfg.Disks.Of(r.Alloc); measured {
			reply.Disk = &wire.DiskUse{Used: d.Bytes, Limit: d.Limit, At: d.At.UnixNano()}
		}
	}
	if reply.Total.Time == 0 {
		reply.Total.Time = time.Now().UnixNano()
	}
	return reply, nil
}

func (m *Methods) taskUsage(ctx context.Context, id ids.Alloc, task string, live driver.Task) (wire.Usage, error) {
	key := string(id) + "/" + task
	for {
		now, err := live.Stats(ctx)
		if err != nil {
			return wire.Usage{}, err
		}
		if old, ok := m.usage.last(key, now); ok {
			return m.rate(old, now), nil
		}
		if !retry.Sleep(ctx, sampleGap) {
			return wire.Usage{}, ctx.Err()
		}
	}
}

func (m *Methods) rate(old, now driver.Stats) wire.Usage {
	span := float64(now.Time.Sub(old.Time))
	percent := func(before, after uint64) float64 {
		if after < before || span <= 0 {
			return 0
		}
		return 100 * float64(after-before) / span
	}
	u := wire.Usage{
		MemoryRSS:      now.MemoryRSS,
		MemoryCache:    now.MemoryCache,
		MemoryUsage:    now.MemoryUsage,
		MemoryMax:      now.MemoryMax,
		ThrottledNanos: now.ThrottledNanos,
		Time:           now.Time.UnixNano(),
		CPUPercent:     percent(old.CPUNanos, now.CPUNanos),
		UserPercent:    percent(old.UserNanos, now.UserNanos),
		SystemPercent:  percent(old.SystemNanos, now.SystemNanos),
	}
	res := m.cfg.Host.Node().Resources
	if res.CPUCores > 0 {
		u.CPUTicks = u.CPUPercent / 100 * float64(res.CPUShares) / float64(res.CPUCores)
	}
	return u
}

func sum(a, b wire.Usage) wire.Usage {
	return wire.Usage{
		MemoryRSS:      a.MemoryRSS + b.MemoryRSS,
		MemoryCache:    a.MemoryCache + b.MemoryCache,
		MemoryUsage:    a.MemoryUsage + b.MemoryUsage,
		MemoryMax:      a.MemoryMax + b.MemoryMax,
		MemorySwap:     a.MemorySwap + b.MemorySwap,
		CPUPercent:     a.CPUPercent + b.CPUPercent,
		UserPercent:    a.UserPercent + b.UserPercent,
		SystemPercent:  a.SystemPercent + b.SystemPercent,
		CPUTicks:       a.CPUTicks + b.CPUTicks,
		ThrottledNanos: a.ThrottledNanos + b.ThrottledNanos,
		Time:           max(a.Time, b.Time),
	}
}

func (m *Methods) runHost(ctx context.Context, r *wire.AgentRef) (*wire.HostStatsReply, error) {
	if err := m.forMe(r.Node); err != nil {
		return nil, err
	}
	now, err := fingerprint.ReadUsage(m.cfg.DataDir)
	if err != nil {
		return nil, err
	}
	old := m.usage.lastHost(now)
	if old == nil {
		if !retry.Sleep(ctx, sampleGap) {
			return nil, ctx.Err()
		}
		old = now
		if now, err = fingerprint.ReadUsage(m.cfg.DataDir); err != nil {
			return nil, err
		}
		m.usage.lastHost(now)
	}
	reply := now.Reply(old)
	reply.Devices = m.cfg.Devices.Stats()
	res := m.cfg.Host.Node().Resources
	for _, cpu := range reply.CPU {
		reply.CPUTicks += cpu.Total / 100 * float64(res.CPUShares) / float64(max(res.CPUCores, runtime.NumCPU()))
	}
	return reply, nil
}
