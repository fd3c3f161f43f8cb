package external

import (
	"context"
	"time"

	"berth/internal/port/driver"
	"berth/internal/port/pluginhost"
	"berth/pluginproto/driverpb"

	"google.golang.org/protobuf/types/known/durationpb"
)

// usage is what a task has used as far as readings tell: plugins say how much it uses, not how much it has used.
type usage struct {
	at           time.Time
	total        uint64
	user, system uint64
	throttled    uint64
	highest      uint64
}

// Stats implements driver.Task.
func (t *task) Stats(ctx context.Context) (driver.Stats, error) {
	s, err := t.connection(ctx)
	if err != nil {
		return driver.Stats{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, pluginhost.CallLimit)
	defer cancel()
	stream, err := s.rpc.TaskStats(ctx, &driverpb.TaskStatsRequest{
		TaskId:             t.id,
		CollectionInterval: durationpb.New(time.Second),
	})
	if err != nil {
		return driver.Stats{}, problem(err, "read usage of", subject(t.id))
	}
	answer, err := stream.Recv()
	if err != nil {
		return driver.Stats{}, problem(err, "read usage of", subject(t.id))
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.used.add(answer.GetStats(), time.Now()), nil
}

// add counts a reading in.
func (u *usage) add(m *driverpb.TaskStats, now time.Time) driver.Stats {
	cpu, memory := m.GetAggResourceUsage().GetCpu(), m.GetAggResourceUsage().GetMemory()
	if !u.at.IsZero() {
		since := float64(now.Sub(u.at))
		u.total += uint64(max(0, cpu.GetPercent()/100*since))
		u.user += uint64(max(0, cpu.GetUserMode()/100*since))
		u.system += uint64(max(0, cpu.GetSystemMode()/100*since))
	}
	u.at, u.throttled = now, cpu.GetThrottledTime()
	used := max(memory.GetUsage(), memory.GetRss())
	u.highest = max(u.highest, used, memory.GetMaxUsage())
	return driver.Stats{
		Time:           now,
		CPUNanos:       u.total,
		UserNanos:      u.user,
		SystemNanos:    u.system,
		ThrottledNanos: u.throttled,
		MemoryRSS:      memory.GetRss(),
		MemoryCache:    memory.GetCache(),
		MemoryUsage:    used,
		MemoryMax:      u.highest,
		PIDs:           len(m.GetResourceUsageByPid()),
	}
}
