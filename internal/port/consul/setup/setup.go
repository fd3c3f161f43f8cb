// Package setup owns what Consul's access lists have to have for Berth: policies of its agents and of tasks, the role
// of tasks, and the auth method with its rules by which identities become tokens. Package main hands it to the command
// line.
package setup

import (
	"context"
	"fmt"
	"net/url"
	"reflect"
	"strconv"
	"strings"

	"berth/internal/base/consulsetup"
	"berth/internal/base/fault"
	"berth/internal/port/consul"
)

// object is one of the access lists, and where it is.
type object struct {
	kind, name string
	find       string // where it is read by its name; empty: it is found among its like
	among      url.Values
	same       func(have map[string]any) bool // whether one of its like is it
	write      string                         // where a new one is written
	by         string                         // the member by which one that is there is written
	want       map[string]any
	owned      bool // what somebody has made of it stays
}

// Names of what there is to be. The auth method has that which configurations of agents have by default.
const (
	serversPolicy = "berth-servers"
	nodesPolicy   = "berth-nodes"
	tasksPolicy   = "berth-tasks"
	tasksRole     = "berth-tasks-"   // and the namespace
	gatewayPrefix = "berth-gateway-" // and the namespace and the name of the gateway
)

const authMethod = "auth-method"

// serversRules hold for an agent that is a node, too.
const serversRules = `acl = "write"
agent_prefix "" { policy = "read" }
mesh = "write"
node_prefix "" { policy = "write" }
service_prefix "" { policy = "write" }
`

const nodesRules = `agent_prefix "" { policy = "read" }
node_prefix "" { policy = "read" }
service_prefix "" { policy = "write" }
`

// tasksRules let tasks find services. Keys may be secrets of others: who is to read some says it.
const tasksRules = `node_prefix "" { policy = "read" }
service_prefix "" { policy = "read" }
`

// claims are what identities say that rules and names of roles are made of.
var claims = []string{"nomad_namespace", "nomad_job_id", "nomad_task", "nomad_service"}

// wanted are the objects, those first that others name.
func wanted(asked consulsetup.Asked) []*object {
	given, rules := asked.TaskRules != "", tasksRules
	if given {
		rules = asked.TaskRules
	}
	mapped := map[string]any{}
	for _, c := range claims {
		mapped[c] = c
	}
	config := map[string]any{
		"JWKSURL":          asked.Keys,
		"JWTSupportedAlgs": []any{"RS256"},
		"BoundAudiences":   []any{asked.Audience},
		"ClaimMappings":    mapped,
	}
	if asked.KeysCA != "" {
		config["JWKSCACert"] = asked.KeysCA
	}
	return append([]*object{
		policy(serversPolicy, "Berth's servers: tokens of tasks, what gateways do, services of lost nodes",
			serversRules, true),
		policy(nodesPolicy, "Berth's nodes: services of what runs there", nodesRules, true),
		policy(tasksPolicy, "tasks that Berth runs, which show an identity", rules, !given),
		role(tasksRole+asked.Namespace, "tasks of Berth's namespace "+asked.Namespace, tasksPolicy, true),
		{
			kind:  authMethod,
			name:  asked.Method,
			find:  "auth-method/" + url.PathEscape(asked.Method),
			write: "auth-method",
			by:    "Name",
			want: map[string]any{
				"Name":        asked.Method,
				"Type":        "jwt",
				"Description": "identities that Berth's servers have signed",
				"Config":      config,
			},
		},
		rule(asked.Method, "services", `"nomad_service" in value`, "service", "${value.nomad_service}"),
		rule(asked.Method, "tasks", `"nomad_service" not in value`, "role", tasksRole+"${value.nomad_namespace}"),
	}, gateway(asked)...)
}

// gateway are those of a terminating gateway, which speaks for services that have no part in the mesh: its identity, of
// its name and its namespace alone, has the right to each beside what that of a service has.
func gateway(asked consulsetup.Asked) []*object {
	gw := asked.Gateway
	if gw.Name == "" {
		return nil
	}
	name := gatewayPrefix + asked.Namespace + "-" + gw.Name
	rules := ""
	for _, s := range gw.Services {
		rules += "service " + strconv.Quote(s) + " { policy = \"write\" }\n"
	}
	selector := fmt.Sprintf("value.nomad_service == %q and value.nomad_namespace == %q", gw.Name, asked.Namespace)
	return []*object{
		policy(name, "a terminating gateway of Berth: the services behind it", rules, false),
		role(name, "the terminating gateway "+gw.Name+" of Berth's namespace "+asked.Namespace, name, false),
		rule(asked.Method, "gateway "+gw.Name, selector, "role", name),
	}
}

// role has one policy.
func role(name, description, policy string, owned bool) *object {
	return &object{
		kind:  "role",
		name:  name,
		find:  "role/name/" + url.PathEscape(name),
		write: "role",
		by:    "ID",
		owned: owned,
		want: map[string]any{
			"Name":        name,
			"Description": description,
			"Policies":    []any{map[string]any{"Name": policy}},
		},
	}
}

func policy(name, description, rules string, owned bool) *object {
	return &object{
		kind:  "policy",
		name:  name,
		find:  "policy/name/" + url.PathEscape(name),
		write: "policy",
		by:    "ID",
		owned: owned,
		want:  map[string]any{"Name": name, "Description": description, "Rules": rules},
	}
}

// rule binds identities. Rules have no names: they are told apart by which identities they are for.
func rule(method, name, selector, kind, bind string) *object {
	return &object{
		kind:  "binding-rule",
		name:  name,
		among: url.Values{"authmethod": {method}},
		same:  func(have map[string]any) bool { return have["Selector"] == selector },
		write: "binding-rule",
		by:    "ID",
		want: map[string]any{
			"AuthMethod":  method,
			"Description": "Berth: " + name,
			"Selector":    selector,
			"BindType":    kind,
			"BindName":    bind,
		},
	}
}

// Consul says what Consul's access lists have to have, and writes it where that is asked. What is there already as it
// has to be is left alone; it may be repeated, and goes on where it was broken off.
func Consul(ctx context.Context, asked consulsetup.Asked) (*consulsetup.Report, error) {
	at := asked.Consul
	agent, err := consul.New(consul.Config{
		Address:    at.Address,
		Token:      at.Token,
		TLS:        at.TLS,
		SkipVerify: at.SkipVerify,
		CAFile:     at.CAFile,
		CertFile:   at.CertFile,
		KeyFile:    at.KeyFile,
	})
	if err != nil {
		return nil, fault.WithHint(err, "CONSUL_HTTP_ADDR and the other variables of Consul's own program say where "+
			"Consul is")
	}
	out := &consulsetup.Report{Applied: asked.Apply}
	for _, o := range wanted(asked) {
		have, err := o.read(ctx, agent)
		if err != nil {
			return nil, wayOut(fault.Note(err, "read", o.kind+" "+o.name), o, asked)
		}
		step := consulsetup.Step{Kind: o.kind, Name: o.name, Action: o.action(have), Object: o.want}
		out.Steps = append(out.Steps, step)
		if !asked.Apply || step.Action != consulsetup.Create && step.Action != consulsetup.Update {
			continue
		}
		path := o.write
		if have != nil {
			id, _ := have[o.by].(string)
			path += "/" + url.PathEscape(id)
		}
		if err := agent.Write(ctx, path, o.want); err != nil {
			return nil, wayOut(fault.Note(err, "write", o.kind+" "+o.name), o, asked)
		}
	}
	return out, nil
}

// read reads the object as it is there; nil: it is not.
func (o *object) read(ctx context.Context, agent *consul.Agent) (map[string]any, error) {
	if o.find != "" {
		var have map[string]any
		found, err := agent.Find(ctx, o.find, nil, &have)
		if err != nil || !found {
			return nil, err
		}
		return have, nil
	}
	var all []map[string]any
	if _, err := agent.Find(ctx, o.write+"s", o.among, &all); err != nil {
		return nil, err
	}
	for _, have := range all {
		if o.same(have) {
			return have, nil
		}
	}
	return nil, nil
}

func (o *object) action(have map[string]any) string {
	switch {
	case have == nil:
		return consulsetup.Create
	case o.is(have):
		return consulsetup.Unchanged
	case o.owned:
		return consulsetup.Kept
	}
	return consulsetup.Update
}

// is reports whether what is there says the same: Consul adds indexes and ids, and what it is for is anybody's words.
func (o *object) is(have map[string]any) bool {
	for member, want := range o.want {
		switch got := have[member]; member {
		case "Description":
		case "Rules":
			text, _ := got.(string)
			if strings.Join(strings.Fields(text), " ") != strings.Join(strings.Fields(want.(string)), " ") {
				return false
			}
		case "Policies":
			links, _ := got.([]any)
			name := want.([]any)[0].(map[string]any)["Name"]
			if len(links) != 1 || links[0].(map[string]any)["Name"] != name {
				return false
			}
		default:
			if !reflect.DeepEqual(got, want) {
				return false
			}
		}
	}
	return true
}

// wayOut says what to do when an object cannot be read or written.
func wayOut(err error, o *object, asked consulsetup.Asked) error {
	switch kind := fault.KindOf(err); {
	case kind == fault.Denied && asked.Consul.Token.Empty():
		return fault.WithHint(err, "show a token that may write access lists: CONSUL_HTTP_TOKEN_FILE names its file; "+
			`"consul acl bootstrap" makes the first one`)
	case kind == fault.Denied:
		return fault.WithHint(err, `show a token that has acl = "write": CONSUL_HTTP_TOKEN_FILE names its file`)
	case kind == fault.Unsupported:
		return err // it has no access lists, and the error says how to have some
	case o.kind == authMethod:
		return fault.WithHint(err, "Consul reads the public keys itself, each of its servers: name by -jwks-url where "+
			"they reach them, and by -jwks-ca-file who has signed the certificate there")
	case kind == fault.Unavailable:
		return fault.WithHint(err, "CONSUL_HTTP_ADDR says where Consul is")
	}
	return err
}
