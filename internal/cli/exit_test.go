package cli_test

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"berth/internal/cli"
)

const noUUID = "dead0000-0000-4000-8000-00000000dead"

// reading is what a verb that only reads is asked for in vain.
type reading struct {
	missing []string // what stands behind the verb, and names something that does not exist
	most    int      // how many arguments it takes
	code    int      // where it is not 1
}

// reads are the verbs that only read.
var reads = map[string]reading{
	"acl policy info":               {missing: []string{"nobody", "-json nobody"}, most: 1},
	"acl policy list":               {},
	"acl policy self":               {},
	"acl role info":                 {missing: []string{"nobody", "-by-name nobody"}, most: 1},
	"acl role list":                 {},
	"acl token info":                {missing: []string{"nobody", "-json nobody"}, most: 1},
	"acl token list":                {},
	"acl token self":                {},
	"agent-info":                    {},
	"alloc checks":                  {missing: []string{"dead", noUUID}, most: 1},
	"alloc fs":                      {missing: []string{"dead", noUUID}, most: 2},
	"alloc logs":                    {missing: []string{"dead", noUUID, "-f dead", "4ff1 nothing"}, most: 2},
	"alloc status":                  {missing: []string{"dead", noUUID, "-json " + noUUID}, most: 1},
	"completion bash":               {},
	"completion fish":               {},
	"completion zsh":                {},
	"deployment list":               {},
	"deployment status":             {missing: []string{"dead", noUUID, "-json " + noUUID}, most: 1},
	"eval list":                     {},
	"eval status":                   {missing: []string{"dead", noUUID, "-json " + noUUID}, most: 1},
	"event stream":                  {},
	"fs":                            {missing: []string{"dead", noUUID}, most: 2},
	"inspect":                       {missing: []string{"nothing"}, most: 1},
	"job allocs":                    {missing: []string{"nothing", "-json nothing"}, most: 1},
	"job deployments":               {missing: []string{"nothing", "-json nothing"}, most: 1},
	"job history":                   {missing: []string{"nothing", "-version 7 nothing"}, most: 1},
	"job inspect":                   {missing: []string{"nothing", "-version 7 nothing"}, most: 1},
	"job plan":                      {missing: []string{"testdata/files/nothing.hcl"}, most: 1, code: 255},
	"job scaling-events":            {missing: []string{"nothing", "-json nothing"}, most: 1},
	"job status":                    {missing: []string{"nothing", "-json nothing", "-short nothing"}, most: 1},
	"job validate":                  {missing: []string{"testdata/files/nothing.hcl"}, most: 1},
	"logs":                          {missing: []string{"dead", noUUID}, most: 2},
	"monitor":                       {missing: []string{"-node-id dead"}},
	"namespace inspect":             {missing: []string{"nothing"}, most: 1},
	"namespace list":                {},
	"namespace status":              {missing: []string{"nothing"}, most: 1},
	"node denials":                  {},
	"node meta read":                {missing: []string{"-node-id dead"}},
	"node pool info":                {missing: []string{"nothing"}, most: 1},
	"node pool jobs":                {missing: []string{"nothing"}, most: 1},
	"node pool list":                {},
	"node pool nodes":               {missing: []string{"nothing"}, most: 1},
	"node orphans list":             {missing: []string{"dead", noUUID}, most: 1},
	"node status":                   {missing: []string{"dead", noUUID, "-json " + noUUID}, most: 1},
	"operator autopilot get-config": {},
	"operator autopilot health":     {},
	"operator backup inspect":       {missing: []string{"/nothing"}, most: 1},
	"operator check-data":           {missing: []string{"/nothing"}, most: 1},
	"operator ca list":              {},
	"operator join-token list":      {},
	"operator raft list-peers":      {},
	"operator recovery status":      {},
	"operator root keyring list":    {},
	"operator snapshot inspect":     {missing: []string{"nothing.snap"}, most: 1},
	"plan":                          {missing: []string{"testdata/files/nothing.hcl"}, most: 1, code: 255},
	"plugin status":                 {missing: []string{"nothing", "-json nothing"}, most: 1},
	"scaling policy info":           {missing: []string{"dead", noUUID}, most: 1},
	"scaling policy list":           {},
	"server members":                {},
	"service info":                  {missing: []string{"nothing"}, most: 1},
	"service list":                  {},
	"status":                        {missing: []string{"nothing", "dead", noUUID}, most: 1},
	"validate":                      {missing: []string{"testdata/files/nothing.hcl"}, most: 1},
	"var get":                       {missing: []string{"nothing", "-json nothing"}, most: 1},
	"var list":                      {most: 1},
	"version":                       {},
	"volume snapshot list":          {missing: []string{"-plugin nothing"}},
	"volume status":                 {missing: []string{"nothing", "-json nothing", "-node dead"}, most: 1},
}

// changes are the verbs that change something, or run what somebody else says.
var changes = strings.Split(`acl bootstrap,acl policy apply,acl policy delete,acl role create,acl role delete,`+
	`acl role update,acl token create,acl token delete,acl token update,alloc exec,alloc restart,alloc signal,alloc stop,exec,fmt,`+
	`deployment fail,deployment health,deployment pause,deployment promote,deployment resume,job dispatch,job periodic force,job eval,job promote,job restart,job revert,job run,job scale,job start,job stop,job tag apply,job tag unset,node allow,node deny,node eligibility,node identity keep,node identity new,node orphans adopt,node orphans end,node readmit,`+
	`namespace apply,namespace delete,node config,node meta apply,node pool apply,node pool delete,node pool init,`+
	`node purge,node reboot-confirm,node replace,`+
	`node unknown-mount forget,operator api,operator backup restore,operator backup save,operator forget-volumes,`+
	`operator autopilot set-config,operator ca finish,operator ca rotate,operator join-token create,`+
	`operator join-token revoke,operator raft remove-peer,operator raft transfer-leadership,`+
	`operator recovery begin,operator recovery dismiss,`+
	`operator recovery finish,operator root keyring remove,operator root keyring rotate,operator snapshot restore,operator snapshot save,plugin rebind,run,`+
	`server force-leave,service delete,setup consul,stop,system gc,var init,var lock,var purge,var put,`+
	`volume create,volume delete,volume deregister,volume detach,volume expand,volume init,volume register,`+
	`volume release,volume snapshot create,volume snapshot delete`, ",")

// TestEveryVerbReadsOrChanges: a new one is put into one of the lists.
func TestEveryVerbReadsOrChanges(t *testing.T) {
	all := slices.Concat(slices.Collect(maps.Keys(reads)), changes)
	slices.Sort(all)
	have := cli.Leaves()
	slices.Sort(have)
	if !slices.Equal(all, have) {
		t.Errorf("the lists have\n%q, the command line has\n%q", all, have)
	}
}

// TestReadingWhatDoesNotExistFails: given a verb that only reads, when it is asked for something that does not exist,
// for a flag that it does not have, or for more than it takes, then it prints nothing that a script could take for an
// answer, says in one sentence what is wrong, and exits with 1; "plan" with 255, because 1 is an answer of it.
func TestReadingWhatDoesNotExistFails(t *testing.T) {
	for _, verb := range slices.Sorted(maps.Keys(reads)) {
		r := reads[verb]
		want := 1
		if r.code != 0 {
			want = r.code
		}
		fails := func(says string, args ...string) {
			t.Helper()
			_, address := serve(t)
			typed := append(words(verb), args...)
			got := run(t.Context(), address, "", typed...)
			if got.code != want || got.stdout != "" || strings.Count(got.stderr, "Error: ") != 1 ||
				strings.Count(got.stderr, "\n") != 1 || !strings.Contains(got.stderr, says) {
				t.Errorf("berth %s: exit code %d, want %d, and a sentence with %q:\n%s%s", strings.Join(typed, " "),
					got.code, want, says, got.stdout, got.stderr)
			}
		}
		for _, missing := range r.missing {
			args := words(missing)
			fails(args[len(args)-1], args...)
		}
		fails("-nosuch", "-nosuch")
		fails("berth "+verb+" -help", slices.Repeat([]string{"x"}, r.most+1)...)
	}
}

// TestChangingWhatDoesNotExistFailsLikeReadingIt: given a verb that changes something, when it is asked for what does
// not exist, then nothing is changed, and it exits with 1, as the verbs do that read.
func TestChangingWhatDoesNotExistFailsLikeReadingIt(t *testing.T) {
	for _, typed := range []string{
		"server force-leave nothing",
		"alloc restart dead", "alloc signal dead", "alloc stop dead", "alloc stop " + noUUID, "exec dead ls",
		"job dispatch nothing", "job periodic force nothing",
		"job eval nothing", "job start nothing", "job stop nothing",
		"node allow -reason r -y dead", "node deny -reason r -y dead",
		"node eligibility -disable dead", "node orphans adopt -yes dead",
		"node orphans end -yes dead", "node readmit -reason r -y dead", "node reboot-confirm -reason r -y dead",
		"node meta apply -node-id dead a=b", "node purge -y dead",
		"node replace -reason r -y dead dead", "operator recovery dismiss -reason r -y dead",
		"plugin rebind -provider p -y nothing", "volume delete nothing", "volume deregister nothing",
		"volume deregister -force -reason r -y nothing", "volume detach nothing ash", "volume detach db-data dead",
		"volume expand -size 1GiB nothing", "volume release -node ash -reason r -y nothing",
		"volume snapshot create nothing",
	} {
		f, address := serve(t)
		got := run(t.Context(), address, "", words(typed)...)
		if got.code != 1 || got.stdout != "" || strings.Count(got.stderr, "Error: ") != 1 {
			t.Errorf("berth %s: exit code %d, want 1:\n%s%s", typed, got.code, got.stdout, got.stderr)
		}
		for _, request := range f.requests {
			if !strings.HasPrefix(request, "GET ") {
				t.Errorf("berth %s: asked %s", typed, request)
			}
		}
	}
}
