package diff

import (
	"cmp"
	"slices"
	"time"

	"berth/internal/base/ids"
	"berth/internal/model/alloc"
	"berth/internal/model/deployment"
	"berth/internal/model/job"
)

// Words that stopped and lost allocs carry.
const (
	WhyJobStopped  = "the job was stopped"
	WhySurplus     = "the group needs fewer allocs"
	WhyGroupGone   = "the job no longer has this group"
	WhyForeign     = "the job was purged and registered again"
	WhyUpdated     = "replaced by a newer version of the job"
	WhyMigrating   = "moved at the request of a person"
	WhyLost        = "its node is down"
	WhyRescheduled = "replaced because it failed"
	WhyRunAgain    = "replaced because it ended though it should run"
	WhyDuplicate   = "another alloc has the same name"
	WhyNodeUnfit   = "its node no longer fits the job"
	WhyDoneStopped = "it had ended before the job was stopped"
	WhyNotPromoted = "a canary that was not promoted"
)

// dueSoon is due now: the clocks of nodes and servers differ.
const dueSoon = time.Second

// Input is one group of a job with its allocs.
type Input struct {
	Job   *job.Job       // nil: purged
	Group *job.TaskGroup // nil: the job no longer has it, or is stopped
	// Allocs are all of the group that the state knows, in any order.
	Allocs []*alloc.Alloc
	// Down reports a node that is gone or unknown.
	Down func(ids.Node) bool
	// Change tells what the job's present version means to an alloc; SharedUse whether it changes the mode of a shared
	// volume.
	Change    func(*alloc.Alloc) Change
	SharedUse func(*alloc.Alloc) bool
	// Deploys: the cluster knows deployments. Deployment is that of the job's present version; nil: there is none.
	Deploys    bool
	Deployment *deployment.Deployment
	Now        time.Time

	hold string // why nothing of the version replaces an older one; set by who reconciles
}

// Result is what the group needs.
type Result struct {
	Place   []Place
	Stop    []Stop
	InPlace []*alloc.Alloc
	// Later are failed allocs that are replaced after a pause.
	Later []Later
	// Rolling: more allocs are to be replaced once those that were placed are healthy. Halted is one of these that is
	// not healthy; nil: none is known not to be.
	Rolling bool
	Halted  *alloc.Alloc
	// Held says what more allocs wait for before they are replaced, other than health; empty: for nothing.
	Held string
	// Canaries is how many the group is to have; of a system job Fits are the nodes that are to have an alloc.
	Canaries int
	Fits     int
	// Spent are failed allocs that are not replaced any more.
	Spent []*alloc.Alloc
	// Leaving: successors are to be placed once the processes of stopped allocs are gone.
	Leaving bool
	Changes Changes
}

// Changes counts what an evaluation does to a group.
type Changes struct {
	Ignore, Place, Migrate, Stop, InPlaceUpdate, DestructiveUpdate, Canary, Preemptions uint64
}

// Place asks for one alloc.
type Place struct {
	Index int
	Node  ids.Node // for system jobs: the only node
	// Previous is what it replaces; nil: nothing.
	Previous *alloc.Alloc
	// Failed: the predecessor failed, other nodes are preferred. Delay is the pause that was kept.
	Failed bool
	Delay  time.Duration
	// Ends is why Previous is stopped, which happens only if its successor finds a place; empty: it is stopped anyway.
	Ends string
	// Update: Previous runs, and runs an older version.
	Update bool
	// Canary: it is tried beside what it may replace. Former: it is of its predecessor's version of the job.
	Canary, Former bool
	// Together: all updates of the group go at once, because the mode of a volume that they share changes.
	Together bool
}

// Stop ends an alloc.
type Stop struct {
	Alloc *alloc.Alloc
	Why   string
	Lost  bool // its node is gone
}

// Later is a failed alloc whose pause is not over.
type Later struct {
	Alloc *alloc.Alloc
	At    time.Time
}

// slot is what the group has under one index.
type slot struct {
	live, unknown, lost, migrating, ended, done, leaving, past []*alloc.Alloc
}

// Reconcile decides for a group of a service or batch job.
func Reconcile(in Input) Result {
	var r Result
	tried := in.setApart()
	slots := in.sort(&r)
	if in.Group == nil {
		return tried.stopAll(tried.sort(&r), in.stopAll(slots, r))
	}
	in.try(tried, slots, &r)
	indexes := make([]int, 0, len(slots)+in.Group.Count)
	for i := range slots {
		indexes = append(indexes, i)
	}
	for i := range in.Group.Count {
		if slots[i] == nil {
			indexes = append(indexes, i)
		}
	}
	slices.Sort(indexes)
	var kept []*alloc.Alloc
	silent := in.silent(slots)
	for _, i := range indexes {
		if i >= in.Group.Count {
			if s := slots[i]; silent > 0 && len(s.live) > 0 {
				silent--
				r.Changes.Ignore++
				s.live = s.live[1:]
			}
			r.retire(slots[i])
			continue
		}
		if a := in.fill(i, slots[i], &r); a != nil {
			kept = append(kept, a)
		}
	}
	r.Held = in.hold
	in.update(kept, &r)
	return r
}

// sort files the allocs by index and fate, best first.
func (in *Input) sort(r *Result) map[int]*slot {
	allocs := slices.Clone(in.Allocs)
	slices.SortFunc(allocs, in.prefer)
	slots := map[int]*slot{}
	at := func(i int) *slot {
		if slots[i] == nil {
			slots[i] = &slot{}
		}
		return slots[i]
	}
	for _, a := range allocs {
		foreign := in.Job != nil && a.JobCreateIndex != in.Job.CreateIndex
		down := !a.ClientTerminal() && in.Down(a.Node)
		switch {
		case in.batch() && !foreign && a.OutcomeUnknown() && !a.ForceReschedule:
			at(a.Index).done = append(at(a.Index).done, a) // it may be: a person says that it is to run again
		case a.ServerTerminal():
			if down {
				r.Stop = append(r.Stop, Stop{a, a.DesiredDescription, true})
			} else if !a.ClientTerminal() && !foreign {
				at(a.Index).leaving = append(at(a.Index).leaving, a)
			} else if a.ClientStatus == alloc.ClientLost && a.NextAlloc == "" && !foreign {
				at(a.Index).past = append(at(a.Index).past, a)
			}
		case foreign:
			if !a.ClientTerminal() {
				r.Stop = append(r.Stop, Stop{a, WhyForeign, down})
				r.Changes.Stop++
			}
		case a.Unknown(in.Now.Add(dueSoon)):
			at(a.Index).unknown = append(at(a.Index).unknown, a)
		case down || a.ClientStatus == alloc.ClientLost || a.ClientStatus == alloc.ClientUnknown:
			at(a.Index).lost = append(at(a.Index).lost, a)
		case a.ClientStatus == alloc.ClientComplete && in.batch():
			at(a.Index).done = append(at(a.Index).done, a)
		case a.ClientTerminal():
			at(a.Index).ended = append(at(a.Index).ended, a)
		case a.Migrate:
			at(a.Index).migrating = append(at(a.Index).migrating, a)
		default:
			at(a.Index).live = append(at(a.Index).live, a)
		}
	}
	return slots
}

func (in *Input) batch() bool { return in.Job != nil && job.RunsToEnd(in.Job.Type) }

// prefer orders allocs of one index: newer versions first, then running ones, healthy ones, and younger ones.
func (in *Input) prefer(a, b *alloc.Alloc) int {
	return cmp.Or(
		cmp.Compare(b.JobVersion, a.JobVersion),
		-compareBool(a.ClientStatus == alloc.ClientRunning, b.ClientStatus == alloc.ClientRunning),
		-compareBool(a.Healthy(), b.Healthy()),
		cmp.Compare(b.CreateIndex, a.CreateIndex),
		cmp.Compare(a.ID, b.ID),
	)
}

func compareBool(a, b bool) int {
	if a == b {
		return 0
	}
	if a {
		return 1
	}
	return -1
}

// stopAll ends what is left of a group that is not wanted. Completed allocs of a batch job are marked too, so that the
// job runs again when it is started again.
func (in *Input) stopAll(slots map[int]*slot, r Result) Result {
	why := WhyGroupGone
	if in.Job.Stopped() {
		why = WhyJobStopped
	}
	for _, i := range sortedKeys(slots) {
		s := slots[i]
		for _, a := range slices.Concat(s.live, s.migrating) {
			r.Stop = append(r.Stop, Stop{a, why, false})
		}
		for _, a := range slices.Concat(s.lost, s.unknown) {
			r.Stop = append(r.Stop, Stop{a, why, a.ClientStatus != alloc.ClientLost})
		}
		for _, a := range slices.Concat(s.done, s.ended) {
			r.Stop = append(r.Stop, Stop{a, WhyDoneStopped, false})
		}
		r.Changes.Stop += uint64(len(s.live) + len(s.migrating) + len(s.lost) + len(s.unknown))
	}
	return r
}

func sortedKeys[V any](m map[int]V) []int {
	out := make([]int, 0, len(m))
	for k := range m {
		out = append(out, k)
	}
	slices.Sort(out)
	return out
}

// retire ends the allocs of an index that the group no longer has.
func (r *Result) retire(s *slot) {
	for _, a := range slices.Concat(s.live, s.migrating) {
		r.stop(a, WhySurplus, false)
	}
	for _, a := range slices.Concat(s.lost, s.unknown) {
		r.stop(a, WhySurplus, a.ClientStatus != alloc.ClientLost)
	}
}

func (r *Result) stop(a *alloc.Alloc, why string, lost bool) {
	r.Stop = append(r.Stop, Stop{a, why, lost})
	r.Changes.Stop++
}

// fill sees to it that an index has one alloc, and returns it if it runs already.
func (in *Input) fill(index int, s *slot, r *Result) *alloc.Alloc {
	before := len(r.Place)
	defer func() { in.keepVersion(r, before) }()
	if s == nil {
		in.place(r, Place{Index: index})
		return nil
	}
	if len(s.live) > 0 {
		back := in.reunite(s.live)
		for _, a := range slices.Concat(s.live[1:], s.migrating) {
			why := in.whyDouble(a)
			if back && why == WhyDuplicate {
				why = WhyReconnected
			}
			r.stop(a, why, false)
		}
		r.lose(s.lost)
		return s.live[0]
	}
	switch {
	case len(s.migrating) > 0:
		r.lose(s.lost)
		in.replace(index, s.migrating, WhyMigrating, r)
		r.Changes.Migrate++
	case len(s.unknown) > 0:
		r.lose(s.lost)
		in.wait(index, s, r)
	case len(s.lost) > 0:
		prev := s.lost[0]
		r.lose(s.lost)
		in.place(r, Place{Index: index, Previous: prev})
	case len(s.ended) > 0 && (len(s.done) == 0 || s.ended[0].CreateIndex > s.done[0].CreateIndex):
		in.retry(index, s.ended[0], r)
	case len(s.done) > 0:
		in.rerun(index, s.done[0], r)
	case in.stopFirst() && len(s.leaving) > 0:
		r.Leaving = true
		r.Changes.Ignore++
	default:
		p := Place{Index: index}
		if former := slices.Concat(s.leaving, s.past); len(former) > 0 {
			p.Previous = former[0]
		}
		in.place(r, p)
	}
	return nil
}

func (in *Input) place(r *Result, p Place) {
	r.Place = append(r.Place, p)
	r.Changes.Place++
}

// replace stops the allocs of an index and asks for one more.
func (in *Input) replace(index int, old []*alloc.Alloc, why string, r *Result) {
	for _, a := range old {
		r.Stop = append(r.Stop, Stop{a, why, false})
	}
	if in.stopFirst() {
		r.Leaving = true
		return
	}
	r.Place = append(r.Place, Place{Index: index, Previous: old[0]})
}

// lose tells the servers' word for allocs of nodes that are gone.
func (r *Result) lose(lost []*alloc.Alloc) {
	for _, a := range lost {
		r.Stop = append(r.Stop, Stop{a, WhyLost, a.ClientStatus != alloc.ClientLost})
	}
}

// rerun looks at a completed alloc of a batch job: its work is done unless the work has changed since.
func (in *Input) rerun(index int, done *alloc.Alloc, r *Result) {
	if in.Change(done) == Destructive {
		in.place(r, Place{Index: index, Previous: done, Ends: WhyUpdated})
		return
	}
	r.Changes.Ignore++
}

// retry looks at an alloc that failed, or that ended though its job is a service.
func (in *Input) retry(index int, a *alloc.Alloc, r *Result) {
	why := WhyRescheduled
	if a.ClientStatus == alloc.ClientComplete {
		why = WhyRunAgain
	}
	if in.Change(a) == Destructive && in.hold == "" || a.Migrate {
		in.place(r, Place{Index: index, Previous: a, Ends: WhyUpdated})
		return
	}
	if a.ForceReschedule {
		in.place(r, Place{Index: index, Previous: a, Failed: true, Ends: why})
		return
	}
	if a.ClientTerminal() && a.ClientDescription == alloc.StoppedWithAgent {
		in.place(r, Place{Index: index, Previous: a, Ends: why})
		return
	}
	policy := in.Group.ReschedulePolicy
	if in.Job.Type == job.TypeSystem {
		policy = &systemPolicy
	}
	at, delay, ok := NextTry(policy, a)
	switch {
	case !ok:
		r.Changes.Ignore++
		r.Spent = append(r.Spent, a)
	case a.Unfit() != "" && !in.stopFirst() && !moved(a):
		// Its node is not asked again, so that there is nothing to wait for: another one takes it, or none does.
		in.place(r, Place{Index: index, Previous: a, Failed: true, Ends: why})
	case !at.After(in.Now.Add(dueSoon)):
		in.place(r, Place{
			Index:    index,
			Previous: a,
			Failed:   true,
			Delay:    delay,
			Ends:     why,
		})
	default:
		r.Changes.Ignore++
		r.Later = append(r.Later, Later{a, at})
	}
}

// stopFirst reports groups whose successor may not exist before the predecessor's processes are gone: CSI plugins,
// whose sockets and stagings belong to one instance at a time. Volumes need no such rule: their claims queue.
func (in *Input) stopFirst() bool {
	for _, t := range in.Group.Tasks {
		if t.CSIPluginConfig != nil {
			return true
		}
	}
	return false
}
