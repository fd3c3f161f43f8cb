package lineage

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"

	"berth/internal/base/fault"
	"berth/internal/base/ids"
	"berth/internal/conformance/csi/oracle"
	"berth/internal/conformance/csi/proxy"
	"berth/internal/model/job"
	"berth/internal/model/node"
	"berth/internal/model/volume"
	"berth/internal/port/csi"
	"berth/internal/server/state"
	"berth/internal/wire"
)

// The nodes. Their ids are fixed, so that who is asked first is the same in each run.
const (
	ashID ids.Node = "a0000000-0000-4000-8000-000000000001"
	oakID ids.Node = "b0000000-0000-4000-8000-000000000002"
)

// world is everything: servers, machines, a provider; and what the oracle will ask.
type world struct {
	t        testing.TB
	site     site
	servers  *servers // the site of the stories that change its past; nil: it is another
	provider *provider
	machines []*machine
	starts   uint64
	story    []string          // what happened, for people
	stops    func(text string) // ends a story that has failed

	byHand  map[ids.Alloc]bool // a person ends it
	foreign map[ids.Alloc]bool // its process lived when the servers' state came to be one that lacks it
	fenced  map[string]bool    // machines that a person took the power from
	wrong   []string           // what was seen that must not be

	tasks  []oracle.TaskStart
	ends   []oracle.End
	obeyed []oracle.Obeyed
	shown  []oracle.Shown
	free   map[string]time.Time
	given  []oracle.Record
}

// site is where the servers are.
type site interface {
	// reach is on what a machine's agent calls them; nil: a person does.
	reach(*machine) wire.Conn
	// snap is the newest state that any of them has.
	snap() *state.Snap
	end()
	// placePlugin places the allocs of the plugin on an agent's node, if they are not there.
	placePlugin(*agent)
}

func (w *world) placePlugin(a *agent) { w.site.placePlugin(a) }

func newWorld(t testing.TB) *world {
	w := emptyWorld(t)
	w.servers = newServers(t, w)
	w.site = w.servers
	return w
}

// emptyWorld is one without servers.
func emptyWorld(t testing.TB) *world {
	w := &world{
		t:       t,
		byHand:  map[ids.Alloc]bool{},
		foreign: map[ids.Alloc]bool{},
		fenced:  map[string]bool{},
		free:    map[string]time.Time{},
	}
	w.stops = func(text string) { t.Helper(); t.Fatal(text) }
	w.provider = newProvider(w)
	return w
}

// close ends whatever runs.
func (w *world) close() {
	for _, m := range w.machines {
		if m.agent != nil {
			m.agent.stop()
			m.agent = nil
		}
	}
	w.site.end()
}

func (w *world) ctx() context.Context { return w.t.Context() }

func (w *world) tell(format string, args ...any) {
	w.story = append(w.story, fmt.Sprintf(format, args...))
}

// agents lists those that run.
func (w *world) agents() (out []*agent) {
	for _, m := range w.machines {
		if m.agent != nil {
			out = append(out, m.agent)
		}
	}
	return out
}

// pause between passes; a node is silent after four.
const pause = 5 * time.Second

// pass lets every agent make one pass, and the servers all that follows.
func (w *world) pass() {
	for _, a := range w.agents() {
		a.tick()
		synctest.Wait()
	}
	w.look()
	w.lookForTwoWriters()
	time.Sleep(pause)
	synctest.Wait()
}

// calm is for how many passes nothing changes before the world counts as settled: longer than a node may be silent, and
// than the servers put anything off.
const calm = 7

// settle lets time go by until nothing changes any more.
func (w *world) settle() {
	w.t.Helper()
	last, same := "", 0
	for range 100 {
		w.pass()
		now := w.digest()
		if same++; now != last {
			last, same = now, 0
		}
		if same >= calm {
			return
		}
	}
	w.fails("it does not come to rest")
}

// digest is all that is, without when it came to be.
func (w *world) digest() string {
	var out []string
	s := w.site.snap()
	for v := range s.Volumes(nil, wire.AllNamespaces, "") {
		out = append(out, fmt.Sprint("volume ", v.ID, " ", v.Status.ExternalID, " ", v.Status.Phase, " ",
			v.Status.LastError))
	}
	for c := range s.Claims(nil) {
		out = append(out, fmt.Sprint("claim ", volume.DescribeClaim(c)))
	}
	for a := range s.Attachments(nil) {
		out = append(out, fmt.Sprint("attachment ", a.ExternalID, " ", volume.DescribeAttachment(a)))
	}
	for a := range s.Allocs(nil, "") {
		out = append(out, fmt.Sprint("alloc ", ids.Short(a.ID), " of ", a.Job, " on ", ids.Short(a.Node), " ",
			a.DesiredStatus, " ", a.ClientStatus, " ", a.ClientDescription))
	}
	for n := range s.Nodes(nil, "") {
		out = append(out, fmt.Sprint("node ", n.Name, " ", n.Status, " ", s.Session(nil, n.ID).Doubted(), " ",
			n.Unfollowed))
		for i := range s.InventoryOf(nil, n.ID) {
			out = append(out, fmt.Sprintf("inventory of %s: %s %s %+v", n.Name, i.Entry.ExternalID, i.Entry.Staging,
				i.Entry.Publications))
		}
	}
	for t := range s.Tombstones(nil) {
		out = append(out, "tombstone of "+t.ExternalID)
	}
	for e := range s.AllEvidence(nil) {
		out = append(out, fmt.Sprint("evidence of ", ids.Short(e.Node), " counts ", e.Counts(s.Meta(nil).Incarnation)))
	}
	if r := s.Recovery(nil); r != nil {
		out = append(out, fmt.Sprint("recovery ended ", !r.Ended.IsZero(), " awaits ",
			len(r.Awaited(volume.StagingKey{}))))
	}
	for _, m := range w.machines {
		line := fmt.Sprint("machine ", m.name, " boot ", m.boots, " processes ",
			slices.Sorted(maps.Keys(m.procs)), " mounts ", len(m.mounts))
		if m.agent != nil {
			line += " agent " + m.agent.shown()
		}
		out = append(out, line)
	}
	return strings.Join(out, "\n")
}

// fails fails the test with the story so far.
func (w *world) fails(format string, args ...any) {
	w.t.Helper()
	const text = "FAILED %s: %s\nthe story:\n  %s\nhow it is:\n  %s\nthe calls:\n  %s"
	w.stops(fmt.Sprintf(text, w.t.Name(), fmt.Sprintf(format, args...), strings.Join(w.story, "\n  "),
		strings.ReplaceAll(w.digest(), "\n", "\n  "), strings.Join(w.callsMade(), "\n  ")))
}

// callsMade are the calls that changed something, for people.
func (w *world) callsMade() (out []string) {
	for _, e := range w.provider.recorded() {
		if e.Kind == proxy.Marked || e.Kind == proxy.CallEnds && csi.RPC(e.RPC).Mutating() {
			out = append(out, e.String())
		}
	}
	return out
}

// ended tells of the end that an agent gave to an alloc.
func (w *world) ended(m *machine, id ids.Alloc) {
	e := oracle.End{
		At:    w.provider.instant(),
		Node:  m.name,
		Alloc: string(id),
		Known: !w.foreign[id],
	}
	if w.byHand[id] {
		e.By = "a person"
	}
	w.ends = append(w.ends, e)
}

// follow finds out what the servers' state lacks that is followed now.
func (w *world) follow() {
	s := w.site.snap()
	w.detachForgotten(s)
	for _, m := range w.machines {
		for id := range m.procs {
			w.foreign[id] = s.Alloc(nil, id) == nil
		}
	}
}

// detachForgotten is what an operator does after a state was put back who compares it with the provider's list: where a
// volume is attached that neither the servers nor any node remembers, nobody else can know of it.
func (w *world) detachForgotten(s *state.Snap) {
	for _, t := range w.provider.things() {
		k := volume.StagingKey{Plugin: disk, ExternalID: t.ID}
		for _, m := range w.machines {
			if !w.provider.isAttached(t.ID, m) || m.remembers(k) ||
				s.Attachment(nil, volume.AttachmentKey{StagingKey: k, Node: m.dir.node}) != nil {
				continue
			}
			w.tell("nobody remembers that %s is attached to %s: an operator detaches it", t.ID, m.name)
			w.provider.control(m, &wire.ControllerCall{
				Kind:   wire.CallDetach,
				Attach: &wire.AttachArgs{ExternalID: t.ID, StorageNode: m.name},
			})
		}
	}
}

// lookForTwoWriters finds a volume that two allocs can write to.
func (w *world) lookForTwoWriters() {
	writers := map[string][]string{}
	for _, m := range w.machines {
		for _, id := range slices.Sorted(maps.Keys(m.procs)) {
			if p := m.procs[id]; m.mounted(p.target) {
				writers[p.volume] = append(writers[p.volume], fmt.Sprintf("%s on %s", ids.Short(id), m.name))
			}
		}
	}
	for _, a := range w.agents() {
		w.wrong = append(w.wrong, a.robbed()...)
	}
	for v, who := range writers {
		if text := fmt.Sprintf("%s has two writers: %s", v, strings.Join(who, ", ")); len(who) > 1 &&
			!slices.Contains(w.wrong, text) {
			w.wrong = append(w.wrong, text)
		}
	}
}

// witness sees what stands around a call at its begin.
func (w *world) witness(e proxy.Entry) *proxy.Observation {
	switch csi.RPC(e.RPC) {
	case csi.NodeUnpublishVolume:
		living := []string{}
		for _, m := range w.machines {
			for id, p := range m.procs {
				if m.name == e.Node && p.target == e.Target {
					living = append(living, "alloc "+ids.Short(id))
				}
			}
		}
		return &proxy.Observation{Living: living}
	case csi.DeleteVolume:
		return &proxy.Observation{Holders: holdersOf(w.site.snap(), e.Volume)}
	case csi.ControllerPublishVolume, csi.NodeStageVolume, csi.NodePublishVolume:
		return &proxy.Observation{Writers: w.writers(e.Volume)}
	}
	return &proxy.Observation{}
}

// writers are the processes that may write to a volume of the provider.
func (w *world) writers(externalID string) []proxy.Writer {
	out := []proxy.Writer{}
	for _, m := range w.machines {
		for _, id := range slices.Sorted(maps.Keys(m.procs)) {
			if p := m.procs[id]; p.volume == externalID && m.mounted(p.target) {
				out = append(out, proxy.Writer{Node: m.name, What: "alloc " + ids.Short(id)})
			}
		}
	}
	return out
}

// holdersOf are the claims of a provider's volume, and its registrations beyond the one that is being deleted.
func holdersOf(s *state.Snap, externalID string) []string {
	out := []string{}
	for c := range s.Claims(nil) {
		if c.ExternalID == externalID {
			out = append(out, "claim: "+volume.DescribeClaim(c))
		}
	}
	for v := range s.Volumes(nil, wire.AllNamespaces, "") {
		if v.Status.ExternalID == externalID && v.Status.Phase != volume.PhaseDeleting {
			out = append(out, "registration "+v.ID.String())
		}
	}
	return out
}

// look notes what people are shown of claims and attachments.
func (w *world) look() {
	s := w.site.snap()
	at := w.provider.instant()
	for c := range s.Claims(nil) {
		x := oracle.Shown{
			At:    at,
			What:  fmt.Sprintf("claim of alloc %s on %s of epoch %s", ids.Short(c.Alloc), c.Volume, c.Epoch),
			Owner: string(c.Alloc),
			State: string(c.State),
			Since: c.Since,
		}
		if s.Node(nil, c.Node) == nil {
			x.Missing = append(x.Missing, "node "+ids.Short(c.Node))
		}
		if s.Alloc(nil, c.Alloc) == nil {
			x.Missing = append(x.Missing, "alloc "+ids.Short(c.Alloc))
		}
		w.shown = append(w.shown, x)
	}
	for a := range s.Attachments(nil) {
		w.shown = append(w.shown, oracle.Shown{
			At:     at,
			What:   "attachment of " + a.Volume.String() + " to node " + ids.Short(a.Node),
			Volume: a.ExternalID,
			Owner:  string(a.Node),
			State:  volume.DescribeAttachment(a),
			Since:  a.Since,
			Tries:  a.Tries,
			Last:   a.LastError,
			Next:   a.NextTry,
		})
	}
}

// judge asks the oracle, and adds what was seen besides.
func (w *world) judge(rest bool) {
	w.t.Helper()
	f := oracle.Facts{
		Processes: oracle.Witnessed(),
		Holders:   oracle.Witnessed(),
		Writers:   oracle.Witnessed(),
		Tasks:     oracle.Feed(w.tasks...),
		Shown:     oracle.Feed(w.shown...),
		Ends:      oracle.Feed(w.ends...),
		Obeyed:    oracle.Feed(w.obeyed...),
		Provider:  oracle.Feed(w.provider.things()...),
		Records:   oracle.Feed(w.records()...),
		Works:     oracle.None[oracle.Work]("time in this world is not the product's"),
		Secrets:   oracle.None[string]("volumes of this world have none"),
		Texts:     oracle.None[oracle.Text]("there are no secrets that they could show"),
		Strays:    oracle.None[oracle.Stray]("tasks of this world write no files"),
		Quiet:     oracle.None[oracle.Quiet]("every time of this world has a fault in it"),
		Rest:      oracle.None[oracle.Rest]("the world is not at rest"),
	}
	if rest {
		f.Rest = oracle.Feed(w.rest())
	}
	found, err := oracle.Check(w.provider.recorded(), f)
	if err != nil {
		w.fails("%v", err)
	}
	for _, v := range found {
		w.wrong = append(w.wrong, v.String())
	}
	if len(w.wrong) > 0 {
		w.fails("broken:\n%s", strings.Join(w.wrong, "\n"))
	}
}

// records are the volumes that the servers know, or that a person has taken from them.
func (w *world) records() []oracle.Record {
	out := slices.Clone(w.given)
	for v := range w.site.snap().Volumes(nil, wire.AllNamespaces, "") {
		passing := v.Status.Phase != volume.PhaseReady && v.Status.Phase != volume.PhaseExpanding
		out = append(out, oracle.Record{ID: v.Status.ExternalID, Passing: passing})
	}
	for c := range w.site.snap().VolumeSnapshots(nil) {
		out = append(out, oracle.Record{ID: c.ExternalID, Name: c.Name, Passing: c.Phase != volume.PhaseReady})
	}
	return out
}

// rest is what is left of volumes.
func (w *world) rest() (r oracle.Rest) {
	s := w.site.snap()
	for c := range s.Claims(nil) {
		r.Claims = append(r.Claims, volume.DescribeClaim(c))
	}
	for a := range s.Attachments(nil) {
		r.Attachments = append(r.Attachments, volume.DescribeAttachment(a))
	}
	for _, m := range w.machines {
		if m.copied {
			continue // it has no power any more, and its disk goes to waste
		}
		mounts, dirs := m.left()
		r.Mounts, r.Dirs = append(r.Mounts, mounts...), append(r.Dirs, dirs...)
	}
	return r
}

func volID(name string) volume.ID {
	return volume.ID{Namespace: ids.DefaultNamespace, ID: ids.Volume(name)}
}

func spec() volume.Spec {
	return volume.Spec{
		Plugin:      disk,
		CapacityMin: 1 << 20,
		CapacityMax: 1 << 30,
		Capabilities: []volume.Capability{
			{AccessMode: volume.SingleNodeWriter, AttachmentMode: volume.FileSystem},
		},
	}
}

// create has a volume made.
func (w *world) create(name string) error {
	ctx, cancel := context.WithTimeout(w.ctx(), time.Minute)
	defer cancel()
	_, err := wire.VolumeCreate.Call(ctx, w.site.reach(nil),
		&wire.VolumeWriteRequest{Volume: volID(name), Spec: spec(), Wait: 30 * time.Second})
	return err
}

// register has the servers know a volume of the provider.
func (w *world) register(name, externalID string) error {
	_, err := wire.VolumeRegister.Call(w.ctx(), w.site.reach(nil),
		&wire.VolumeWriteRequest{Volume: volID(name), Spec: spec(), ExternalID: externalID, Wait: time.Second})
	return err
}

// submit asks for a job whose one task writes to a volume.
func (w *world) submit(id, vol string) error {
	g := &job.TaskGroup{
		Name:             "g",
		Count:            1,
		EphemeralDisk:    &job.EphemeralDisk{SizeMB: 10},
		ReschedulePolicy: &job.ReschedulePolicy{Unlimited: true, Delay: time.Second, DelayFunction: "constant"},
		Volumes: map[string]*job.VolumeRequest{"data": {
			Name:           "data",
			Type:           job.VolumeTypeCSI,
			Source:         vol,
			AccessMode:     string(volume.SingleNodeWriter),
			AttachmentMode: string(volume.FileSystem),
		}},
		Tasks: []*job.Task{{
			Name:         "t",
			Driver:       "exec",
			Resources:    &job.Resources{CPU: 1, MemoryMB: 10},
			KillTimeout:  time.Second,
			VolumeMounts: []*job.VolumeMount{{Volume: "data", Destination: "/data"}},
			LogConfig:    &job.LogConfig{MaxFiles: 1, MaxFileSizeMB: 1},
		}},
	}
	_, err := wire.JobRegister.Call(w.ctx(), w.site.reach(nil), &wire.JobRegisterRequest{Job: &job.Job{
		Region:      "global",
		Namespace:   ids.DefaultNamespace,
		ID:          ids.Job(id),
		Name:        id,
		Type:        job.TypeService,
		Priority:    50,
		Datacenters: []string{"*"},
		NodePool:    "default",
		TaskGroups:  []*job.TaskGroup{g},
	}})
	return err
}

// NodeConn implements controllers.Nodes: the connection answers what servers ask a node.
func (w *world) NodeConn(id ids.Node) (wire.Conn, error) {
	for _, a := range w.agents() {
		if a.d.node == id && a.refusal == nil && a.who.Session != "" {
			return asked{a}, nil
		}
	}
	return nil, fault.New(fault.Unavailable, "reach", fmt.Sprintf("node %q", id), "it is not connected")
}

// Await implements controllers.Nodes.
func (w *world) Await(_ context.Context, id ids.Node) (wire.Conn, error) { return w.NodeConn(id) }

// asked is a connection to a node.
type asked struct{ a *agent }

// Invoke answers what the servers ask in these stories.
func (c asked) Invoke(_ context.Context, method string, args, reply any, _ ...grpc.CallOption) error {
	switch out := reply.(type) {
	case *wire.ValidateVolumeReply: // whatever is asked of a volume is confirmed
		return nil
	case *wire.Orphan:
		id := args.(*wire.AgentRef).Alloc
		if rec := c.a.d.store.allocs[id]; rec != nil {
			if rec.Orphan == nil {
				return fault.New(fault.Conflict, "adopt", string(id), "it is no orphan")
			}
			out.Bundle, out.Received = rec.Bundle, rec.Received
		} else if p := c.a.m.procs[id]; p != nil {
			out.Bundle = p.bundle // as its shim keeps it
		} else {
			return fault.New(fault.NotFound, "adopt", string(id), "it is not on this node")
		}
		out.Volumes = c.a.held(id)
		return nil
	}
	data, err := json.Marshal(args)
	return fault.New(fault.Unsupported, "call", method, fmt.Sprintf("nobody asks that here: %s, %v", data, err))
}

// NewStream implements wire.Conn.
func (asked) NewStream(context.Context, *grpc.StreamDesc, string, ...grpc.CallOption) (grpc.ClientStream, error) {
	return nil, fault.New(fault.Unsupported, "call", "a node", "nobody asks that here")
}

// isDown reports whether the servers count a node as down.
func (w *world) isDown(id ids.Node) bool {
	n := w.site.snap().Node(nil, id)
	return n == nil || n.Status == node.StatusDown
}

// fence tells the oracle that a person took the power from a machine, so that it cannot write any more.
func (w *world) fence(m *machine) {
	w.provider.mark(proxy.Fenced, proxy.Entry{Node: m.name, Plugin: string(disk)})
}

// recordOf is a volume that is nobody's but a person's.
func recordOf(externalID string) oracle.Record { return oracle.Record{ID: externalID, Passing: true} }
