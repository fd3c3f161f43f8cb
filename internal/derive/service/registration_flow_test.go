package service_test

import (
	"slices"
	"strings"
	"testing"

	"berth/internal/derive/service"
	"berth/internal/model/alloc"
	"berth/internal/model/job"
	"berth/internal/model/node"
)

// TestWhenAServiceIsFound: given what the servers want of an alloc, what its node says, and the state of its task, then
// its service is found or not.
func TestWhenAServiceIsFound(t *testing.T) {
	running := map[string]*alloc.TaskState{"t": {State: alloc.TaskRunning}}
	waiting := map[string]*alloc.TaskState{"t": {State: alloc.TaskPending}}
	of := func(desired, client string, tasks map[string]*alloc.TaskState) alloc.Alloc {
		return alloc.Alloc{DesiredStatus: desired, ClientStatus: client, TaskStates: tasks}
	}
	const run = alloc.DesiredRun
	for what, c := range map[string]struct {
		a     alloc.Alloc
		task  string
		found bool
	}{
		"a group's, and it runs":              {of(run, alloc.ClientRunning, nil), "", true},
		"a task's, and it runs":               {of(run, alloc.ClientRunning, running), "t", true},
		"a task's that has not started":       {of(run, alloc.ClientRunning, nil), "t", false},
		"a task's that waits for its restart": {of(run, alloc.ClientRunning, waiting), "t", false},
		"it is to stop, unknown to its node":  {of(alloc.DesiredStop, alloc.ClientRunning, running), "t", false},
		"it is to make room":                  {of(alloc.DesiredEvict, alloc.ClientRunning, nil), "", false},
		"it has not started":                  {of(run, alloc.ClientPending, nil), "", false},
		"it has ended":                        {of(run, alloc.ClientComplete, nil), "", false},
		"its node is lost":                    {of(run, alloc.ClientLost, running), "t", false},
		"nothing is known of its node":        {of(run, alloc.ClientUnknown, running), "t", false},
	} {
		if got := service.Registered(&c.a, c.task); got != c.found {
			t.Errorf("%s: found %v", what, got)
		}
	}
}

func source() service.Source {
	servers := func(name, port string) *job.Service {
		return &job.Service{Name: name, Provider: job.ProviderServers, PortLabel: port}
	}
	web, outside := servers("web", "http"), servers("outside", "8080")
	web.Tags = []string{"${meta.rack}", "i${NOMAD_ALLOC_INDEX}", "${nobody}"}
	web.Checks = []*job.ServiceCheck{{
		Name:   "c",
		Type:   job.CheckHTTP,
		Path:   "/${NOMAD_JOB_ID}",
		Header: map[string][]string{"X-Port": {"${NOMAD_PORT_http}"}},
	}}
	outside.Address = "${meta.outside}"
	g := &job.TaskGroup{
		Name:     "g",
		Services: []*job.Service{web, outside, servers("bare", "")},
		Tasks:    []*job.Task{{Name: "t", Services: []*job.Service{servers("${NOMAD_TASK_NAME}-admin", "admin")}}},
	}
	return service.Source{
		Alloc: &alloc.Alloc{
			ID:            "11111111-2222-4333-8444-555555555555",
			Namespace:     "shop",
			Node:          "n",
			Job:           "j",
			TaskGroup:     "g",
			Index:         2,
			DesiredStatus: alloc.DesiredRun,
			ClientStatus:  alloc.ClientRunning,
			TaskStates:    map[string]*alloc.TaskState{"t": {State: alloc.TaskRunning}},
			CreateIndex:   5,
			ModifyIndex:   7,
			Resources: alloc.Resources{Ports: []alloc.PortMapping{{Label: "http", Value: 2000, HostIP: "10.0.0.9"},
				{Label: "admin", Value: 2001, HostIP: "10.0.0.9"}}},
		},
		Job: &job.Job{ID: "j", Name: "j", Region: "r", TaskGroups: []*job.TaskGroup{g}},
		Node: &node.Node{
			ID:         "n",
			Datacenter: "dc1",
			Resources:  node.Resources{IP: "10.0.0.9"},
			Meta:       map[string]string{"rack": "r7", "outside": "db.example"},
		},
	}
}

// TestWhereServicesAre: names, tags and addresses are put together from facts of the alloc and its node.
func TestWhereServicesAre(t *testing.T) {
	all := service.Registrations(source())
	var got []string
	for _, r := range all {
		got = append(got, r.Name+" "+r.HostPort()+" "+strings.Join(r.Tags, ","))
	}
	want := []string{"web 10.0.0.9:2000 r7,i2,${nobody}", "outside db.example:8080 ", "bare 10.0.0.9 ",
		"t-admin 10.0.0.9:2001 "}
	if !slices.Equal(got, want) {
		t.Fatalf("found %q, not %q", got, want)
	}
	web, admin := all[0], all[3]
	if web.ID != "_nomad-task-11111111-2222-4333-8444-555555555555-group-g-web-http" ||
		admin.ID != "_nomad-task-11111111-2222-4333-8444-555555555555-t-t-admin-admin" {
		t.Errorf("ids %s and %s", web.ID, admin.ID)
	}
	if web.Namespace != "shop" || web.Job != "j" || web.Node != "n" || web.Datacenter != "dc1" ||
		web.CreateIndex != 5 || web.ModifyIndex != 7 {
		t.Errorf("it is said to be %+v", web)
	}
	s := source()
	s.Alloc.Withdrawn = []string{web.ID}
	if left := service.Registrations(s); len(left) != 3 || left[0].Name != "outside" {
		t.Errorf("one was withdrawn, %d are found", len(left))
	}
	s = source()
	s.Job.TaskGroups[0].Services[0].Provider = "consul"
	if left := service.Registrations(s); len(left) != 3 {
		t.Errorf("one is of another provider, %d are found", len(left))
	}
}

// TestAServiceThatIsNoneIsLeftOut: one whose name, port or texts are none does not hide the others, and it is said why.
func TestAServiceThatIsNoneIsLeftOut(t *testing.T) {
	for says, breaks := range map[string]func(s *service.Source){
		`its name becomes "a/b"`: func(s *service.Source) { s.Node.Meta["rack"] = "a/b" },
		`the allocation has no port "http"`: func(s *service.Source) {
			s.Alloc.Resources.Ports = s.Alloc.Resources.Ports[1:]
		},
		"with what ${…} stands for it has": func(s *service.Source) {
			s.Node.Meta["rack"] = strings.Repeat("x", 2<<20)
		},
	} {
		s := source()
		if strings.Contains(says, "becomes") {
			s.Job.TaskGroups[0].Services[0].Name = "${meta.rack}"
		}
		breaks(&s)
		all, err := service.Instances(s)
		if err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v", says, err)
		}
		if len(all) != 3 {
			t.Errorf("%s: %d others are there", says, len(all))
		}
	}
}

func TestChecksArePutTogether(t *testing.T) {
	all, err := service.Checks(source())
	if err != nil || len(all) != 1 {
		t.Fatalf("%d checks, %v", len(all), err)
	}
	c := all[0]
	if c.Address != "10.0.0.9:2000" || c.Path != "/j" || c.Header["X-Port"][0] != "2000" || c.Name != "c" ||
		c.Task != "" || len(c.ID) != 64 {
		t.Errorf("%+v", c)
	}
	s := source()
	s.Job.TaskGroups[0].Services[2].Checks = []*job.ServiceCheck{{Name: "nowhere", Type: job.CheckTCP}}
	if all, err = service.Checks(s); len(all) != 1 || err == nil ||
		!strings.Contains(err.Error(), `check "nowhere" of service "bare": neither it nor its service names a port`) {
		t.Errorf("%d checks, %v", len(all), err)
	}
}

// TestNamesOfServices: they are labels of DNS.
func TestNamesOfServices(t *testing.T) {
	for name, fine := range map[string]bool{"web": true, "a": true, "Web-1": true, "9": true,
		strings.Repeat("x", 63): true, "": false, "-a": false, "a-": false, "a.b": false, "a_b": false,
		"ä": false, strings.Repeat("x", 64): false} {
		if why := service.BadName(name); (why == "") != fine {
			t.Errorf("%q: %q", name, why)
		}
	}
}

// TestTheSameAreChosen: by one key the same are chosen in every order of the list, most of them stay when one goes, and
// keys spread over all.
func TestTheSameAreChosen(t *testing.T) {
	var all []*service.Registration
	for i := range 10 {
		id := "_nomad-task-" + strings.Repeat(string(rune('a'+i)), 8) + "-g-web-http"
		all = append(all, &service.Registration{ID: id})
	}
	first := service.Choose(all, 3, "me")
	turned := slices.Clone(all)
	slices.Reverse(turned)
	if again := service.Choose(turned, 3, "me"); !slices.Equal(first, again) {
		t.Error("in another order others are chosen")
	}
	without := slices.DeleteFunc(slices.Clone(all), func(r *service.Registration) bool { return r == first[0] })
	if left := service.Choose(without, 3, "me"); left[0] != first[1] || left[1] != first[2] {
		t.Error("one went, and those that stay are not chosen")
	}
	heads := map[*service.Registration]int{}
	for i := range 1000 {
		heads[service.Choose(all, 1, "caller "+strings.Repeat("x", i))[0]]++
	}
	for _, r := range all {
		if heads[r] < 50 || heads[r] > 200 {
			t.Errorf("of 1,000 keys %d choose %s", heads[r], r.ID)
		}
	}
	if n := len(service.Choose(all, 99, "me")); n != 10 {
		t.Errorf("99 of 10 are %d", n)
	}
	if n := len(service.Choose(all, -1, "me")); n != 0 {
		t.Errorf("less than none are %d", n)
	}
}

// TestWhoHasANetworkOfItsOwnIsFoundThere: by address_mode alloc, at the port that its task listens on; not before its
// node has said which address it has. Its check asks there, too.
func TestWhoHasANetworkOfItsOwnIsFoundThere(t *testing.T) {
	s := source()
	web := s.Job.TaskGroups[0].Services[0]
	web.AddressMode = job.AddressAlloc
	s.Alloc.Resources.Ports[0].To = 80
	if all, err := service.Instances(s); len(all) != 3 || err == nil {
		t.Errorf("before its address is known: %d instances, %v", len(all), err)
	}
	s.Alloc.Network = &alloc.NetworkStatus{Address: "172.26.64.7"}
	if all := service.Registrations(s); len(all) != 4 || all[0].HostPort() != "172.26.64.7:80" {
		t.Errorf("found is %+v", all[0])
	}
	if all, err := service.Checks(s); err != nil || all[0].Address != "172.26.64.7:80" {
		t.Errorf("%+v, %v", all[0], err)
	}
	web.Checks[0].AddressMode = job.AddressHost
	if all, err := service.Checks(s); err != nil || all[0].Address != "10.0.0.9:2000" {
		t.Errorf("by its own word: %+v, %v", all[0], err)
	}
	web.PortLabel = "81"
	if all := service.Registrations(s); all[0].HostPort() != "172.26.64.7:81" {
		t.Errorf("by a number: %+v", all[0])
	}
}

// TestTheNodeAsksTheAllocAlone: wherever a service is said to be, its check asks at what the servers gave the alloc,
// and at no number of the node's.
func TestTheNodeAsksTheAllocAlone(t *testing.T) {
	s := source()
	web := s.Job.TaskGroups[0].Services[0]
	web.Address = "169.254.169.254"
	if all, err := service.Checks(s); err != nil || all[0].Address != "10.0.0.9:2000" {
		t.Errorf("it is asked at %+v, %v", all[0], err)
	}
	web.PortLabel = "4646"
	if all, err := service.Checks(s); err == nil || len(all) > 0 {
		t.Errorf("a port of the node is asked: %+v", all[0])
	}
	web.Checks[0].PortLabel = "http"
	if all, err := service.Checks(s); err != nil || all[0].Address != "10.0.0.9:2000" {
		t.Errorf("it is asked at %+v, %v", all[0], err)
	}
}

// TestAScriptIsOfItsTask: it has no address, and an id by what it runs; one that no task has is left out.
func TestAScriptIsOfItsTask(t *testing.T) {
	s := source()
	web := s.Job.TaskGroups[0].Services[0]
	script := func(task, arg string) *job.ServiceCheck {
		return &job.ServiceCheck{
			Name:     "s",
			Type:     job.CheckScript,
			TaskName: task,
			Command:  "/x",
			Args:     []string{arg},
		}
	}
	web.Checks = []*job.ServiceCheck{script("t", "1"), script("t", "2"), script("", "1")}
	all, err := service.Checks(s)
	if len(all) != 2 || all[0].ID == all[1].ID || all[0].Address != "" || all[0].Task != "t" || err == nil ||
		!strings.Contains(err.Error(), "a script runs in a task") {
		t.Fatalf("%+v, %v", all, err)
	}
	web.TaskName = "t"
	if all, err = service.Checks(s); len(all) != 3 || err != nil || all[2].Task != "t" {
		t.Errorf("with a task of its service: %+v, %v", all, err)
	}
}

// TestACanaryHasTagsOfItsOwn: until it is promoted, and where the job gives some.
func TestACanaryHasTagsOfItsOwn(t *testing.T) {
	for what, c := range map[string]struct {
		canary bool
		own    []string
		want   string
	}{
		"a canary":              {true, []string{"try", "i${NOMAD_ALLOC_INDEX}"}, "try,i3"},
		"a canary without":      {true, nil, "live"},
		"one that was promoted": {false, []string{"try"}, "live"},
	} {
		s := source()
		s.Alloc.Canary, s.Alloc.Index = c.canary, 3
		web := s.Job.TaskGroups[0].Services[0]
		web.Tags, web.CanaryTags = []string{"live"}, c.own
		all := service.Registrations(s)
		if got := strings.Join(all[0].Tags, ","); got != c.want {
			t.Errorf("%s: %q, want %q", what, got, c.want)
		}
	}
}

// TestAnAllocIsFoundByIPv6: by address_mode alloc_ipv6, and asked there; one without such an address is not found.
func TestAnAllocIsFoundByIPv6(t *testing.T) {
	s := source()
	web := s.Job.TaskGroups[0].Services[0]
	web.AddressMode = job.AddressAllocIPv6
	s.Alloc.Resources.Ports[0].To = 80
	s.Alloc.Network = &alloc.NetworkStatus{Address: "172.26.64.7"}
	if _, err := service.Instances(s); err == nil || !strings.Contains(err.Error(), "no IPv6 address") {
		t.Errorf("without one: %v", err)
	}
	s.Alloc.Network.IPv6 = "fd00:be::7"
	if all := service.Registrations(s); all[0].HostPort() != "[fd00:be::7]:80" {
		t.Errorf("found is %+v", all[0])
	}
	if all, err := service.Checks(s); err != nil || all[0].Address != "[fd00:be::7]:80" {
		t.Errorf("%+v, %v", all[0], err)
	}
}
