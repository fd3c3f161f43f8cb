package scheduler

import (
	"bufio"
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"berth/internal/base/ids"
	"berth/internal/model/alloc"
	"berth/internal/model/deployment"
	"berth/internal/model/eval"
	"berth/internal/model/job"
	"berth/internal/model/node"
	"berth/internal/model/plugin"
	"berth/internal/model/volume"
)

var update = flag.Bool("update", false, "rewrite the transcripts")

// TestTranscripts runs the stories in testdata: commands, a line of dashes, and what came of them in sentences.
func TestTranscripts(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("no transcripts: %v", err)
	}
	for _, f := range files {
		t.Run(strings.TrimSuffix(filepath.Base(f), ".txt"), func(t *testing.T) { playFile(t, f) })
	}
}

func playFile(t *testing.T, path string) {
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	s := &script{t: t, w: newWorld()}
	var out strings.Builder
	for i, block := range strings.Split(strings.TrimRight(string(raw), "\n"), "\n\n") {
		if i > 0 {
			out.WriteString("\n\n")
		}
		input, want, _ := strings.Cut(block, "\n----\n")
		input = strings.TrimSuffix(input, "\n----")
		out.WriteString(input)
		got := s.play(input)
		if !*update && got != strings.TrimRight(want, "\n") { // also where nothing came of it
			t.Errorf("%s: after\n%s\n\ngot:\n%s\n\nwant:\n%s", path, input, got, want)
		}
		if got != "" {
			out.WriteString("\n----\n" + got)
		}
	}
	if *update {
		if err := os.WriteFile(path, []byte(out.String()+"\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// script plays commands on a world.
type script struct {
	t *testing.T
	w *world
}

func (s *script) play(input string) string {
	var out []string
	sc := bufio.NewScanner(strings.NewReader(input))
	for sc.Scan() {
		line := strings.TrimSpace(sc.Text())
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		words := strings.Fields(line)
		args := parseArgs(words[1:])
		out = append(out, s.command(words[0], args)...)
		s.w.check(s.t)
	}
	return strings.Join(out, "\n")
}

// arguments are the words of a command: plain ones in order, and key=value pairs.
type arguments struct {
	plain []string
	pairs map[string]string
}

func parseArgs(words []string) arguments {
	a := arguments{pairs: map[string]string{}}
	for _, w := range words {
		if k, v, ok := strings.Cut(w, "="); ok {
			a.pairs[k] = v
		} else {
			a.plain = append(a.plain, w)
		}
	}
	return a
}

func (a arguments) int(key string, missing int) int {
	if v, err := strconv.Atoi(a.pairs[key]); err == nil {
		return v
	}
	return missing
}

func (a arguments) has(word string) bool { return slices.Contains(a.plain, word) }

func (s *script) command(verb string, a arguments) []string {
	switch verb {
	case "node":
		s.node(a)
	case "volume":
		s.volume(a)
	case "job":
		s.job(a)
	case "stop-job":
		j := *s.w.jobs[ids.Job(a.plain[0])]
		j.Stop = true
		s.w.register(&j)
	case "forget": // an older version of a job, by its number
		j := s.w.jobs[ids.Job(a.plain[0])]
		delete(s.w.versions, versionID(j.ID, j.CreateIndex, uint64(a.int("version", 0))))
	case "promote", "pause", "resume", "fail-deployment": // of the job's present version
		s.decide(verb, ids.Job(a.plain[0]))
	case "purge-job":
		delete(s.w.jobs, ids.Job(a.plain[0]))
	case "pass":
		d, err := time.ParseDuration(a.plain[0])
		if err != nil {
			s.t.Fatal(err)
		}
		s.w.now = s.w.now.Add(d)
	case "eval":
		return s.eval(s.w.newEval(ids.Job(a.plain[0]), eval.TriggerJobRegister))
	case "blocked": // the job's blocked evaluation is looked at again
		for _, e := range s.w.JobEvals("", ids.Job(a.plain[0])) {
			if e.Status == eval.StatusBlocked {
				return s.eval(e)
			}
		}
		return []string{"no blocked evaluation"}
	case "evals":
		return s.evals(ids.Job(a.plain[0]))
	case "running", "healthy", "unhealthy", "complete", "failed", "gone", "migrate", "force",
		"unfit":
		for _, name := range a.plain {
			s.report(verb, name)
		}
	case "full", "room": // a volume was refused on the node; another may be tried
		k := plugin.ShortageKey{Node: testNode(a.plain[0]).ID, Plugin: "p"}
		if delete(s.w.full, k); verb == "full" {
			s.w.full[k] = &plugin.Shortage{ShortageKey: k, Reason: "no room left"}
		}
	case "allocs":
		return s.allocs(ids.Job(a.plain[0]))
	case "claims":
		return s.claims(ids.Volume(a.plain[0]))
	default:
		s.t.Fatalf("unknown command %q", verb)
	}
	return nil
}

func (s *script) node(a arguments) {
	n := testNode(a.plain[0])
	if old := s.w.nodes[n.ID]; old != nil {
		c := *old
		n = &c
	}
	n.Resources.CPUShares = int64(a.int("cpu", int(n.Resources.CPUShares)))
	for k, v := range a.pairs {
		switch {
		case k == "dc":
			n.Datacenter = v
		case k == "pool":
			n.NodePool = v
		case k == "class":
			n.NodeClass = v
		case k == "hostvolume":
			name, ro := strings.CutSuffix(v, ":ro")
			n.HostVolumes = map[string]*node.HostVolume{name: {Name: name, ReadOnly: ro}}
		case strings.HasPrefix(k, "meta."):
			n.Meta[k[5:]] = v
		case strings.HasPrefix(k, "attr."):
			n.Attributes[k[5:]] = v
		}
	}
	for _, w := range a.plain[1:] {
		switch w {
		case "down", "ready":
			n.Status = w
		case "ineligible", "eligible":
			n.SchedulingEligibility = w
		case "no-exec": // as an agent is that has just started
			n.Drivers, n.Attributes = map[string]*node.Driver{}, map[string]string{}
		case "plugin", "failing-plugin":
			var seg map[string]string
			if z := a.pairs["zone"]; z != "" {
				seg = map[string]string{"example.com/Zone": z}
			}
			n.CSI = nil
			nodePlugin(n, int64(a.int("slots", 0)), seg)
			if w == "failing-plugin" {
				n.CSI[0].State, n.CSI[0].Reason = plugin.Failing, "probe: UNAVAILABLE"
			}
		}
	}
	s.w.putNode(n)
}

func (s *script) volume(a arguments) {
	mode := volume.SingleNodeWriter
	if m := a.pairs["mode"]; m != "" {
		mode = volume.AccessMode(m)
	}
	v := testVolume(a.plain[0], mode)
	if a.has("also-mm") {
		v.Spec.Capabilities = append(v.Spec.Capabilities,
			volume.Capability{AccessMode: volume.MultiNodeMultiWriter, AttachmentMode: volume.FileSystem})
	}
	if p := a.pairs["phase"]; p != "" {
		v.Status.Phase = volume.Phase(p)
	}
	if z := a.pairs["zone"]; z != "" {
		for one := range strings.SplitSeq(z, ",") {
			v.Status.Topologies = append(v.Status.Topologies,
				plugin.Topology{Segments: map[string]string{"example.com/zone": one}})
		}
	}
	v.Status.HomeNode = ids.Node(a.pairs["home"])
	s.w.volumes[v.ID] = v
}

func (s *script) job(a arguments) {
	j := testJob(a.plain[0], a.int("count", 1))
	g := j.TaskGroups[0]
	if typ := a.pairs["type"]; typ != "" {
		j.Type = typ
	}
	if j.Type != job.TypeService {
		g.Update = nil
	}
	if j.Type == job.TypeBatch {
		g.ReschedulePolicy = &job.ReschedulePolicy{
			Attempts:      1,
			Interval:      24 * time.Hour,
			Delay:         5 * time.Second,
			DelayFunction: "constant",
		}
	}
	if v := a.pairs["attempts"]; v != "" {
		g.ReschedulePolicy = &job.ReschedulePolicy{
			Attempts:      a.int("attempts", 0),
			Interval:      24 * time.Hour,
			Delay:         5 * time.Second,
			DelayFunction: "constant",
		}
	}
	if j.Type == job.TypeSystem {
		g.ReschedulePolicy, g.Update = nil, &job.UpdateStrategy{MaxParallel: 1}
	}
	g.Tasks[0].Resources.CPU = a.int("cpu", 100)
	g.Update = s.maxParallel(g.Update, a)
	if v := a.pairs["command"]; v != "" {
		g.Tasks[0].Config = map[string]any{"command": v}
	}
	if v := a.pairs["driver"]; v != "" {
		g.Tasks[0].Driver = v
	}
	if v := a.pairs["port"]; v != "" {
		g.Networks = []*job.NetworkResource{{
			Mode:          "host",
			ReservedPorts: []job.Port{{Label: "p", Value: a.int("port", 0)}},
		}}
	}
	if v := a.pairs["volume"]; v != "" {
		mode := volume.SingleNodeWriter
		if m := a.pairs["mode"]; m != "" {
			mode = volume.AccessMode(m)
		}
		useVolume(j, v, mode, func(r *job.VolumeRequest) {
			r.PerAlloc, r.ReadOnly = a.has("per-alloc"), a.has("read-only")
			if f := a.pairs["flags"]; f != "" {
				r.MountOptions = &job.MountOptions{MountFlags: strings.Split(f, ",")}
			}
		})
	}
	if v := a.pairs["hostvolume"]; v != "" {
		useVolume(j, v, "", func(r *job.VolumeRequest) { r.Type = job.VolumeTypeHost })
	}
	if a.has("plugin") {
		g.Tasks[0].CSIPluginConfig = &job.CSIPluginConfig{ID: "p"}
	}
	if v := a.pairs["constraint"]; v != "" { // left,operator,right
		p := strings.SplitN(v, ",", 3)
		j.Constraints = append(j.Constraints, &job.Constraint{LTarget: p[0], Operand: p[1], RTarget: p[2]})
	}
	if a.has("distinct_hosts") {
		j.Constraints = append(j.Constraints, &job.Constraint{Operand: "distinct_hosts"})
	}
	if v := a.pairs["distinct"]; v != "" {
		j.Constraints = append(j.Constraints,
			&job.Constraint{Operand: "distinct_property", LTarget: v, RTarget: a.pairs["each"]})
	}
	if v := a.pairs["spread"]; v != "" {
		j.Spreads = []*job.Spread{{Attribute: v, Weight: 100, SpreadTarget: spreadTargets(a.pairs["shares"])}}
	}
	s.w.register(j)
}

func (s *script) maxParallel(u *job.UpdateStrategy, a arguments) *job.UpdateStrategy {
	if u == nil || a.pairs["parallel"] == "" && a.pairs["canary"] == "" {
		return u
	}
	return &job.UpdateStrategy{MaxParallel: a.int("parallel", 1), Canary: a.int("canary", 0)}
}

// decide is what a person decides about a deployment, as the servers record it.
func (s *script) decide(verb string, id ids.Job) {
	j := s.w.jobs[id]
	old := s.w.deploys[deployment.IDOf(j.Namespace, j.ID, j.CreateIndex, j.Version)]
	status := map[string]string{
		"promote":         deployment.Running,
		"pause":           deployment.Paused,
		"resume":          deployment.Running,
		"fail-deployment": deployment.Failed,
	}[verb]
	d := old.With(status, "")
	if verb == "promote" {
		g := *d.Groups["g"]
		g.Promoted = true
		d.Groups = map[string]*deployment.Group{"g": &g}
		for _, a := range s.w.live(id) {
			s.w.change(a.ID, func(a *alloc.Alloc) { a.Canary = false })
		}
	}
	s.w.deploys[d.ID] = d
}

func spreadTargets(text string) []*job.SpreadTarget {
	var out []*job.SpreadTarget
	for part := range strings.SplitSeq(text, ",") {
		if k, v, ok := strings.Cut(part, ":"); ok {
			n, _ := strconv.Atoi(v)
			out = append(out, &job.SpreadTarget{Value: k, Percent: uint8(n)})
		}
	}
	return out
}

// report plays a node: name is the alloc's, with @node for system jobs.
func (s *script) report(verb, name string) {
	a := s.find(name, verb)
	yes := verb == "healthy"
	switch verb {
	case "running":
		s.w.end(a.ID, alloc.ClientRunning)
	case "healthy", "unhealthy":
		s.w.end(a.ID, alloc.ClientRunning)
		s.w.change(a.ID, func(a *alloc.Alloc) {
			a.Health = &alloc.Health{Healthy: yes, Reason: unless(yes, "not in time")}
		})
	case "complete", "failed":
		s.w.end(a.ID, verb)
		if g := s.w.jobs[a.Job].Group(a.TaskGroup); verb == "failed" && alloc.Judged(a, g) {
			s.w.change(a.ID, func(a *alloc.Alloc) { a.Health = &alloc.Health{Reason: `task "t" exited with code 3`} })
		}
		s.w.release(a.ID)
	case "unfit":
		s.w.end(a.ID, alloc.ClientFailed)
		s.w.change(a.ID, func(a *alloc.Alloc) {
			a.TaskStates = map[string]*alloc.TaskState{"t": {State: alloc.TaskDead, Failed: true,
				Events: []*alloc.TaskEvent{{
					Type:           alloc.EventDriverFailure,
					DisplayMessage: `command "/no": not found`,
					Details:        map[string]string{alloc.DetailUnfit: "true"},
				}}}}
		})
		s.w.release(a.ID)
	case "gone":
		s.w.released(a.ID)
	case "migrate":
		s.w.change(a.ID, func(a *alloc.Alloc) { a.Migrate = true })
	case "force":
		s.w.change(a.ID, func(a *alloc.Alloc) { a.ForceReschedule = true })
	}
}

func unless(yes bool, text string) string {
	if yes {
		return ""
	}
	return text
}

// find picks the alloc that a report is about: of those with the name the oldest for which it makes sense.
func (s *script) find(name, verb string) *alloc.Alloc {
	name, on, _ := strings.Cut(name, "@")
	var best *alloc.Alloc
	for _, a := range s.w.allocs {
		fits := a.Name == name && (on == "" || string(a.Node) == on)
		switch verb {
		case "gone":
			claims := s.w.claimsWhere(func(c *volume.Claim) bool { return c.Alloc == a.ID && c.State != volume.Queued })
			fits = fits && len(claims) > 0
		case "force":
			fits = fits && a.ClientStatus == alloc.ClientFailed && !a.ServerTerminal()
		default:
			fits = fits && !a.ClientTerminal()
		}
		if fits && (best == nil || a.CreateIndex < best.CreateIndex) {
			best = a
		}
	}
	if best == nil {
		s.t.Fatalf("no alloc %q for %s", name, verb)
	}
	return best
}
