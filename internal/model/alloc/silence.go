package alloc

import "time"

// Silence is that nothing was known of an alloc because its node was silent.
type Silence struct {
	Since int64 // nanoseconds since the epoch
	// Until is when it counts as lost; 0: when a person says so.
	Until int64
	// Back is when its node reported it again; 0: not yet.
	Back int64
}

// Unknown reports an alloc that may run: its node is silent, and it does not count as lost yet.
func (a *Alloc) Unknown(now time.Time) bool {
	s := a.Silence
	return a.ClientStatus == ClientUnknown && s != nil && (s.Until == 0 || now.UnixNano() < s.Until)
}

// SilentText is what people read at an alloc of which nothing is known.
const SilentText = "the node did not send heartbeats in time: what became of it is not known"

// FallSilent is the alloc from when its node is silent on; within 0: until a person decides.
func (a *Alloc) FallSilent(now time.Time, within time.Duration) *Alloc {
	n := *a
	n.ClientStatus, n.ClientDescription = ClientUnknown, SilentText
	n.Silence = &Silence{Since: now.UnixNano()}
	if within > 0 {
		n.Silence.Until = now.Add(within).UnixNano()
	}
	n.ModifyTime = now.UnixNano()
	return &n
}

// ComeBack notes that the node of an alloc has reported it again.
func (a *Alloc) ComeBack(before *Alloc, now time.Time) {
	if before.ClientStatus == ClientUnknown && a.ClientStatus != ClientUnknown && a.Silence != nil {
		s := *a.Silence
		s.Back = now.UnixNano()
		a.Silence = &s
	}
}

// RunsSince is when the last of the tasks that run was started; zero: none runs.
func (a *Alloc) RunsSince() (last time.Time) {
	for _, s := range a.TaskStates {
		if s != nil && s.State == TaskRunning && s.StartedAt.After(last) {
			last = s.StartedAt
		}
	}
	return last
}

// Score is how its node scored when the alloc was placed.
func (a *Alloc) Score() float64 {
	if a.Metrics != nil {
		for _, s := range a.Metrics.ScoreMetaData {
			if s != nil && s.NodeID == a.Node {
				return s.NormScore
			}
		}
	}
	return 0
}
