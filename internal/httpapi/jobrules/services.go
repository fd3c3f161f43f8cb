package jobrules

import (
	"cmp"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"berth/api"
	"berth/internal/base/pattern"
	"berth/internal/derive/service"
	"berth/internal/httpapi/jobrules/consulrules"
	"berth/internal/httpapi/jobrules/identities"
	"berth/internal/model/job"
	"berth/internal/model/network"
)

// canonicalServices fills in what services leave unset. Task is nil for those of the group.
func canonicalServices(j *api.Job, g *api.TaskGroup, t *api.Task, services []*api.Service) {
	task, base := "", *j.Name+"-"+g.Name
	if t != nil {
		task, base = t.Name, *j.Name+"-"+g.Name+"-"+t.Name
	}
	names := strings.NewReplacer("${JOB}", *j.Name, "${TASKGROUP}", g.Name, "${GROUP}", g.Name, "${TASK}", task,
		"${BASE}", base)
	for _, s := range services {
		if s == nil {
			continue
		}
		s.Name = names.Replace(cmp.Or(s.Name, base))
		s.Provider = cmp.Or(s.Provider, job.ProviderConsul)
		s.AddressMode = cmp.Or(s.AddressMode, job.AddressAuto)
		s.OnUpdate = cmp.Or(s.OnUpdate, job.OnUpdateHealthy)
		s.Cluster = cmp.Or(s.Cluster, defaultCluster)
		canonicalRestart(s.CheckRestart)
		identities.CanonicalizeService(s, task)
		for _, c := range s.Checks {
			if c == nil {
				continue
			}
			c.Name = names.Replace(cmp.Or(c.Name, fmt.Sprintf("service: %q check", s.Name)))
			c.OnUpdate = cmp.Or(c.OnUpdate, s.OnUpdate)
			canonicalRestart(c.CheckRestart)
		}
	}
}

// defaultCluster is the cluster of Consul that a service belongs to when it names none.
const defaultCluster = "default"

func canonicalRestart(r *api.CheckRestart) {
	if r != nil {
		set(&r.Grace, time.Second)
	}
}

// services judges the services of a group, and of its tasks.
func (c *checker) services(at string, g *api.TaskGroup) {
	for _, s := range g.Services {
		if s != nil {
			c.service(fmt.Sprintf("%s: service %q", at, s.Name), g, s, "")
		}
	}
	for _, t := range g.Tasks {
		if t == nil {
			continue
		}
		for _, s := range t.Services {
			if s == nil {
				continue
			}
			here := fmt.Sprintf("%s: task %q: service %q", at, t.Name, s.Name)
			c.service(here, g, s, t.Name)
			if s.TaskName != "" && s.TaskName != t.Name {
				c.addf("%s: it belongs to its task; remove task = %q", here, s.TaskName)
			}
		}
	}
	c.onceFound(at, g)
	if why := consulrules.OneProvider(g); why != "" {
		c.addf("%s: %s", at, why)
	}
}

// onceFound refuses two services whose registrations would have one id.
func (c *checker) onceFound(at string, g *api.TaskGroup) {
	seen := map[string]bool{}
	check := func(owner string, services []*api.Service) {
		for _, s := range services {
			if s == nil {
				continue
			}
			id := owner + "\x00" + s.Name + "\x00" + s.PortLabel
			if seen[id] {
				c.addf("%s: service %q is defined twice with port %q; name one of them otherwise", at, s.Name,
					s.PortLabel)
			}
			seen[id] = true
		}
	}
	check("", g.Services)
	for _, t := range g.Tasks {
		if t != nil {
			check(t.Name, t.Services)
		}
	}
}

var numeric = pattern.Of(`^[0-9]+$`)

// service judges a service. Task is the one that it belongs to; empty: the group's.
func (c *checker) service(at string, g *api.TaskGroup, s *api.Service, task string) {
	c.zero(at, "name", s.Name)
	c.zero(at, "address", s.Address)
	c.zero(at, "tags", s.Tags...)
	c.zero(at, "canary_tags", s.CanaryTags...)
	if service.Static(s.Name) {
		if why := service.BadName(s.Name); why != "" {
			c.addf("%s: this is no name for a service: %s", at, why)
		}
	}
	switch s.Provider {
	case job.ProviderServers:
	case job.ProviderConsul:
		for _, why := range consulrules.Service(s) {
			c.addf("%s: %s", at, why)
		}
	default:
		c.addf("%s: provider must be %s or %s, is %q", at, job.ProviderServers, job.ProviderConsul,
			shorten(s.Provider))
	}
	c.addressMode(at, g, s.AddressMode)
	// A proxy beside it reaches it by any number, and so is a gateway by others of its group's network.
	behind := s.Connect != nil && (s.Connect.SidecarService != nil || s.Connect.Gateway != nil)
	c.portLabel(at, g, s.PortLabel, behind || s.Address != "" || job.WithinAlloc(s.AddressMode))
	if s.Address != "" && s.AddressMode != job.AddressAuto {
		c.addf("%s: an address can be given with address_mode auto alone, is %q", at, s.AddressMode)
	}
	if s.TaskName != "" && !hasTask(g, s.TaskName) {
		c.addf("%s: the group has no task %q", at, s.TaskName)
	}
	c.onUpdate(at, s.OnUpdate)
	identities.Checker(c.addf).Service(at, s, task)
	c.checkRestart(at, s.CheckRestart)
	seen := map[string]bool{}
	for _, check := range s.Checks {
		if check == nil {
			continue
		}
		here := fmt.Sprintf("%s: check %q", at, check.Name)
		key := strings.Join(append([]string{check.Name, check.Type, check.PortLabel, check.Path, check.Command},
			check.Args...), "\x00")
		if seen[key] {
			c.addf("%s is defined twice", here)
		} else {
			seen[key] = true
		}
		c.check(here, g, s, check, task)
	}
}

func hasTask(g *api.TaskGroup, name string) bool {
	return slices.ContainsFunc(g.Tasks, func(t *api.Task) bool { return t != nil && t.Name == name })
}

// addressMode judges by which address a service or a check is found.
func (c *checker) addressMode(at string, g *api.TaskGroup, mode string) {
	own := func(n *api.NetworkResource) bool {
		if n == nil {
			return false
		}
		_, plugins := network.CNI(n.Mode)
		return plugins || n.Mode == network.ModeBridge
	}
	if job.WithinAlloc(mode) && !slices.ContainsFunc(g.Networks, own) {
		c.addf("%s: with address_mode %q it is found in the allocation's own network; write network { mode = %q } in "+
			"the group", at, mode, network.ModeBridge)
	}
}

// portLabel judges where a service or a check is: a label of the group's, or, at an address of its own, a number.
func (c *checker) portLabel(at string, g *api.TaskGroup, label string, own bool) {
	if label == "" {
		return
	}
	if numeric().MatchString(label) {
		if n, err := strconv.Atoi(label); err != nil || n < 1 || n > 65535 {
			c.addf("%s: port %q is none from 1 to 65535", at, label)
		} else if !own {
			c.addf("%s: port %q is a number: write the label of a port of the group's network, or give an address or "+
				"address_mode alloc", at, label)
		}
		return
	}
	var labels []string
	for _, n := range g.Networks {
		if n == nil {
			continue
		}
		for _, p := range slices.Concat(n.ReservedPorts, n.DynamicPorts) {
			labels = append(labels, p.Label)
		}
	}
	if !slices.Contains(labels, label) {
		c.addf("%s: the group has no port %q; its network has %s", at, label, listOf(labels))
	}
}

func listOf(labels []string) string {
	if len(labels) == 0 {
		return "none: write network { port \"…\" {} } in the group"
	}
	return shorten(strings.Join(labels, ", "))
}

func (c *checker) onUpdate(at, value string) {
	all := []string{job.OnUpdateHealthy, job.OnUpdateIgnoreWarnings, job.OnUpdateIgnore}
	if !slices.Contains(all, value) {
		c.addf("%s: on_update must be one of %s, is %q", at, strings.Join(all, ", "), value)
	}
}

func (c *checker) checkRestart(at string, r *api.CheckRestart) {
	if r == nil {
		return
	}
	if r.Limit < 0 {
		c.addf("%s: limit of check_restart must not be negative, is %d", at, r.Limit)
	}
	if *r.Grace < 0 {
		c.addf("%s: grace of check_restart must not be negative, is %s", at, *r.Grace)
	}
}

// leastInterval is how often a check may ask, and how short its timeout may be.
const leastInterval = time.Second

func (c *checker) check(at string, g *api.TaskGroup, s *api.Service, k *api.ServiceCheck, task string) {
	c.zero(at, "name", k.Name)
	c.zero(at, "path", k.Path)
	if k.Type != job.CheckScript {
		c.asksAt(at, g, s, k)
	}
	if k.Interval < leastInterval {
		c.addf("%s: interval must be at least %s, is %s", at, leastInterval, k.Interval)
	}
	if k.Timeout < leastInterval {
		c.addf("%s: timeout must be at least %s, is %s", at, leastInterval, k.Timeout)
	}
	if !slices.Contains([]string{"", "passing", "warning", "critical"}, k.InitialStatus) {
		c.addf("%s: initial_status must be passing, warning or critical, is %q", at, k.InitialStatus)
	}
	if k.SuccessBeforePassing < 0 || k.FailuresBeforeCritical < 0 {
		c.addf("%s: success_before_passing and failures_before_critical must not be negative", at)
	}
	if k.TaskName != "" && !hasTask(g, k.TaskName) {
		c.addf("%s: the group has no task %q", at, k.TaskName)
	}
	if k.OnUpdate != s.OnUpdate { // else it is judged there
		c.onUpdate(at, k.OnUpdate)
	}
	c.checkRestart(at, k.CheckRestart)
	switch k.Type {
	case job.CheckHTTP:
		c.httpCheck(at, k)
	case job.CheckTCP, job.CheckGRPC:
	case job.CheckScript:
		c.scriptCheck(at, s, k, task)
	default:
		c.addf("%s: type must be http, tcp, grpc or script, is %q", at, k.Type)
	}
	if k.Type != job.CheckScript && (k.Command != "" || len(k.Args) > 0) {
		c.addf("%s: command and args are of checks of type script, this one is of type %s", at, k.Type)
	}
	if k.Type != job.CheckHTTP && (k.Path != "" || k.Method != "" || k.Body != "" || len(k.Header) > 0) {
		c.addf("%s: path, method, body and header are of checks of type http, this one is of type %s", at, k.Type)
	}
}

// asksAt judges where a check asks.
func (c *checker) asksAt(at string, g *api.TaskGroup, s *api.Service, k *api.ServiceCheck) {
	label := cmp.Or(k.PortLabel, s.PortLabel)
	switch own := job.WithinAlloc(cmp.Or(k.AddressMode, s.AddressMode)); {
	case label == "":
		c.addf("%s: neither it nor its service names a port", at)
	case k.PortLabel != "":
		c.portLabel(at, g, k.PortLabel, own)
	case numeric().MatchString(label) && !own:
		c.addf("%s: its service's port %q is a number; name the label of the port at which the allocation itself is "+
			"asked", at, label)
	}
	c.addressMode(at, g, k.AddressMode)
}

// scriptCheck judges a check that is a command. Task is the one that its service belongs to; empty: the group's.
func (c *checker) scriptCheck(at string, s *api.Service, k *api.ServiceCheck, task string) {
	if k.Command == "" {
		c.addf("%s: a check of type script needs a command", at)
	}
	c.zero(at, "command", k.Command)
	c.zero(at, "args", k.Args...)
	if cmp.Or(k.TaskName, s.TaskName, task) == "" {
		c.addf("%s: a script runs in a task of the group; write task = \"NAME\"", at)
	}
	if k.PortLabel != "" || k.AddressMode != "" {
		c.addf("%s: port and address_mode are of checks that ask over the network; a script finds its port in its "+
			"environment", at)
	}
}

var token = pattern.Of("^[A-Za-z0-9!#$%&'*+.^_`|~-]+$") // RFC 9110 §5.6.2

func (c *checker) httpCheck(at string, k *api.ServiceCheck) {
	if k.Path == "" {
		c.addf("%s: a check of type http needs a path; write path = \"/\"", at)
	}
	if u, err := url.Parse(k.Path); err != nil || u.IsAbs() || u.Host != "" {
		c.addf("%s: path must be that of the service itself, without scheme and host, is %q", at, shorten(k.Path))
	}
	if !slices.Contains([]string{"", "http", "https"}, k.Protocol) {
		c.addf("%s: protocol must be http or https, is %q", at, k.Protocol)
	}
	if k.Method != "" && !token().MatchString(k.Method) {
		c.addf("%s: method %q is none", at, shorten(k.Method))
	}
	for name, values := range k.Header {
		if !token().MatchString(name) || slices.ContainsFunc(values, badHeader) {
			c.addf("%s: header %q is none of HTTP", at, shorten(name))
		}
	}
}

func badHeader(v string) bool { return strings.ContainsAny(v, "\r\n\x00") }
