package lineage

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"berth/internal/base/ids"
	"berth/internal/model/volume"
	"berth/internal/wire"
)

// person does what the product says. It never lies: before it vouches for something it makes it true.
type person struct {
	w       *world
	adopts  bool // orphans are adopted where that is possible, else ended
	older   bool // it knows that the servers' state was put back to an older one
	decided bool // about orphans
	kept    bool // it keeps the jobs for now: what runs is to run on
}

// ask is what something waits for, in the product's words.
type wait struct{ what, says string }

func (x wait) String() string { return x.what + ": " + x.says }

// command finds what the words name to be typed.
var command = regexp.MustCompile(`berth ((?:[a-z]+ )(?:[a-z-]+ ?){0,2})`)

// exits are the commands that a person can type which end a wait; looking is none.
func (x wait) exits() (out []string) {
	for _, m := range command.FindAllStringSubmatch(x.says, -1) {
		name := strings.TrimSpace(m[1])
		for prefix, end := range ends {
			if strings.HasPrefix(name, prefix) && end != nil && !slices.Contains(out, prefix) {
				out = append(out, prefix)
			}
		}
	}
	if strings.Contains(x.says, "stop the agent") {
		out = append(out, "stop the copy")
	}
	if strings.Contains(x.says, "start its agent") {
		out = append(out, "start its agent")
	}
	slices.Sort(out)
	return out
}

// ends are the commands by which a person ends a wait. They report whether they did anything.
var ends map[string]func(p *person, x wait) bool

func init() { //nolint:gochecknoinits // the table and its entries refer to each other
	ends = map[string]func(*person, wait) bool{
		"operator recovery begin":   (*person).beginRecovery,
		"operator recovery finish":  (*person).finishRecovery,
		"operator recovery status":  (*person).followStatus,
		"operator recovery dismiss": (*person).dismiss,
		"node reboot-confirm":       (*person).confirm,
		"stop the copy":             (*person).stopCopies,
		"start its agent":           (*person).bringBack,
		"node orphans end":          (*person).endOrphans,
		"node orphans list":         (*person).endOrphans,
		"node unknown-mount":        (*person).unmount,
		"volume detach":             (*person).bringBack,
		"job stop":                  (*person).stopJobs,
		"alloc stop":                (*person).stopJobs,
	}
}

// waits collects all that waits for something, with what the product says of it.
func (p *person) waits() (out []wait) {
	w := p.w
	add := func(what, says string) { out = append(out, wait{what, says}) }
	for _, a := range w.agents() {
		if a.refusal != nil {
			add("agent of "+a.m.name, a.refusal.Error())
		}
	}
	view, err := wire.RecoveryStatus.Call(w.ctx(), w.servers.conn, &wire.Query{})
	if err != nil {
		w.fails("the recovery can't be looked at: %v", err)
	}
	if len(view.Evidence) > 0 || view.Record != nil && view.Record.Ended.IsZero() {
		add("the servers' state", strings.Join(view.Exits, "; "))
	}
	s := w.servers.snap()
	for n := range s.Nodes(nil, "") {
		if why := s.Session(nil, n.ID).Doubted(); why != "" {
			add("node "+n.Name, why)
		}
		for _, o := range n.Orphans {
			add("orphan "+ids.Short(o.Alloc)+" on "+n.Name, "berth node orphans end "+ids.Short(o.Alloc))
		}
		if h := s.InventoryHead(nil, n.ID); h != nil {
			for _, u := range h.Unknown {
				add("unknown mount on "+n.Name, u.Describe(n.ID))
			}
		}
	}
	for v := range s.Volumes(nil, wire.AllNamespaces, "") {
		if why := p.whyHeld(v); why != "" {
			add("volume "+string(v.ID.ID), why)
		}
	}
	for t := range s.Tombstones(nil) {
		for c := range s.ClaimsOf(nil, t.StagingKey) {
			if w.isDown(c.Node) {
				add("what is left of "+t.ExternalID, "berth volume detach (after its registration)")
			}
		}
	}
	return out
}

// whyHeld is why a volume is not deleted, for somebody who asks for that and then looks at it.
func (p *person) whyHeld(v *volume.Volume) string {
	w := p.w
	if p.kept {
		return ""
	}
	_, err := wire.VolumeDelete.Call(w.ctx(), w.servers.conn,
		&wire.VolumeDeleteRequest{Volume: v.ID, Wait: time.Second})
	if err == nil {
		return ""
	}
	got, err2 := wire.VolumeGet.Call(w.ctx(), w.servers.conn,
		&wire.Ref[ids.Volume]{ID: v.ID.ID, Query: wire.Query{Namespace: v.Namespace}})
	if err2 != nil || got.Item == nil {
		return err.Error()
	}
	return err.Error() + "; " + strings.Join(got.Item.State, "; ")
}

// finish has everything end, by doing what the product says, until all is at rest.
func (p *person) finish() {
	w := p.w
	p.stopJobs(wait{})
	w.settle()
	w.judge(false)
	var all []wait
	for range 12 {
		all = p.waits()
		if len(all) == 0 {
			w.settle()
			if len(p.waits()) == 0 {
				return
			}
			continue
		}
		done := false
		for _, x := range all {
			exits := x.exits()
			if len(exits) == 0 && !strings.Contains(x.says, "by itself") && !strings.Contains(x.says, "wait") {
				w.fails("%s names no exit", x)
			}
			for _, name := range exits {
				if ends[name](p, x) {
					w.tell("because of %s: %s", x, name)
					done = true
				}
			}
		}
		w.settle()
		w.judge(false)
		if !done && len(p.waits()) == len(all) {
			p.stuck(p.waits())
		}
	}
	p.stuck(all)
}

func (p *person) stuck(all []wait) {
	var text []string
	for _, x := range all {
		text = append(text, fmt.Sprintf("%s [%s]", x, strings.Join(x.exits(), ", ")))
	}
	p.w.fails("what the product says ends nothing:\n%s", strings.Join(text, "\n"))
}

func (p *person) stopJobs(wait) (done bool) {
	if p.kept {
		return false
	}
	w := p.w
	for j := range w.servers.snap().Jobs(nil, wire.AllNamespaces, "") {
		if j.Stop {
			continue
		}
		if _, err := wire.JobDeregister.Call(w.ctx(), w.servers.conn,
			&wire.JobDeregisterRequest{Namespace: j.Namespace, Job: j.ID}); err != nil {
			w.fails("job %s can't be stopped: %v", j.ID, err)
		}
		done = true
	}
	return done
}

func (p *person) beginRecovery(wait) bool {
	if !p.older {
		return false
	}
	_, err := wire.RecoveryBegin.Call(p.w.ctx(), p.w.servers.conn, &wire.RecoveryWord{Reason: "it was put back"})
	p.older = false
	return err == nil
}

func (p *person) finishRecovery(wait) bool {
	_, err := wire.RecoveryFinish.Call(p.w.ctx(), p.w.servers.conn, &wire.RecoveryWord{Reason: "none is missing"})
	return err == nil
}

// followStatus does what the status of the recovery says: those are waits of their own.
func (p *person) followStatus(wait) bool { return false }

// dismiss says that a node is wrong, when the servers' state is not.
func (p *person) dismiss(wait) (done bool) {
	if p.older {
		return false
	}
	for e := range p.w.servers.snap().AllEvidence(nil) {
		if _, err := wire.RecoveryDismiss.Call(p.w.ctx(), p.w.servers.conn,
			&wire.RecoveryWord{Node: e.Node, Reason: "the servers' state is the newest"}); err == nil {
			done = true
		}
	}
	return done
}

// stopCopies takes the power from machines that are copies of others.
func (p *person) stopCopies(wait) (done bool) {
	for _, m := range p.w.machines {
		if m.copied && m.boots > 0 {
			m.off()
			done = true
		}
	}
	return done
}

// confirm says that nothing else runs as a node than its agent, when that is true.
func (p *person) confirm(x wait) bool {
	w := p.w
	stopped := p.stopCopies(x)
	if started := p.bringBack(x); stopped || started {
		w.settle()
	}
	done := false
	for n := range w.servers.snap().Nodes(nil, "") {
		now := w.servers.snap().Session(nil, n.ID)
		refused := slices.ContainsFunc(w.agents(), func(a *agent) bool { return a.d.node == n.ID && a.refusal != nil })
		if now.Doubted() == "" && !refused {
			continue
		}
		r, err := wire.NodeRebootConfirm.Call(w.ctx(), w.servers.conn,
			&wire.RebootConfirmRequest{Node: n.ID, Reason: "nothing else of it runs", By: "a person"})
		if err != nil {
			w.tell("confirming the reboot of %s: %v", n.Name, err)
			continue
		}
		done = true
		if r.Open {
			for _, a := range w.agents() { // the word makes it the one that is to be obeyed
				if a.d.node == n.ID {
					w.starts++
					a.number = w.starts
				}
			}
		}
	}
	return done
}

// endOrphans ends, or adopts, what nobody decides about.
func (p *person) endOrphans(wait) (done bool) {
	w := p.w
	done = p.bringBack(wait{}) // a node that does not answer can't be told
	for _, a := range w.agents() {
		if a.refusal != nil {
			continue
		}
		for _, o := range a.orphans() {
			if rec := a.d.store.allocs[o.Alloc]; rec != nil && rec.Stopped != "" {
				continue
			}
			p.decided = true
			if p.adopts && p.adopt(a, o.Alloc) {
				done = true
				continue
			}
			a.endOrphan(o.Alloc)
			done = true
		}
	}
	return done
}

// adopt gives an orphan to the servers' state.
func (p *person) adopt(a *agent, id ids.Alloc) bool {
	w := p.w
	var o wire.Orphan
	if err := (asked{a}).Invoke(w.ctx(), "", &wire.AgentRef{Node: a.d.node, Alloc: id}, &o); err != nil {
		return false
	}
	seen, err := wire.DigestOf(o.Bundle.Job)
	if err != nil {
		w.fails("%v", err)
	}
	_, err = wire.OrphanAdopt.Call(w.ctx(), w.servers.conn, &wire.OrphanAdoptRequest{
		Orphans: []wire.AgentRef{{Node: a.d.node, Alloc: id}},
		Seen:    seen,
		By:      "a person",
	})
	if err != nil {
		w.tell("adopting %s: %v", ids.Short(id), err)
		return false
	}
	delete(w.foreign, id)
	w.tell("adopted %s", ids.Short(id))
	p.stopLater()
	return true
}

// stopLater has the jobs of what was adopted stop with the others.
func (p *person) stopLater() {
	p.w.settle()
	p.w.judge(false)
	p.stopJobs(wait{}) // unless they are kept
}

// bringBack starts what is down: a node releases what it has by itself.
func (p *person) bringBack(wait) (done bool) {
	for _, m := range p.w.machines {
		if m.agent == nil && !m.copied {
			m.on()
			done = true
		}
	}
	return done
}

// unmount takes away a mount of which nothing says whose it is, when no process has it.
func (p *person) unmount(wait) (done bool) {
	for _, a := range p.w.agents() {
		for _, u := range a.unknown { // in the order of their paths: publications before the staging
			if !slices.ContainsFunc(a.living(), func(x *process) bool { return x.target == u.Path }) {
				a.m.unmountByHand(u)
				done = true
			}
		}
		a.look()
		a.report.full = true
	}
	return done
}
