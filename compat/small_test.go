package compat

import (
	"encoding/json"
	"fmt"
)

// smallTruths reads what there cannot be yet, and asks for what is not built: lists are empty, the rest is refused by
// name, and nothing is unknown.
func smallTruths(a *agent) {
	services, _, err := a.Services().List(nil)
	a.ok(err)
	policies, _, err := a.Scaling().ListPolicies(nil)
	a.ok(err)
	vars, _, err := a.Variables().List(nil)
	a.ok(err)
	registered, _, err := a.Jobs().Services("web", nil)
	a.ok(err)
	if len(services)+len(policies)+len(vars)+len(registered) != 0 {
		a.t.Errorf("services %v, policies %v, variables %v, registrations %v", services, policies, vars, registered)
	}
	count, _, err := a.Evaluations().Count(nil)
	a.ok(err)
	sched, _, err := a.Operator().SchedulerGetConfiguration(nil)
	a.ok(err)
	if count.Count == 0 || sched.SchedulerConfig.SchedulerAlgorithm != "binpack" {
		a.t.Errorf("%d evaluations, the scheduler is %+v", count.Count, sched.SchedulerConfig)
	}
	pools(a)
	keys(a)
	_, _, err = a.ACLTokens().UpsertOneTimeToken(nil)
	a.refused(err, "501 (tokens for one use are not built yet")
	_, err = a.NodePools().Delete("p", nil)
	a.refused(err, "404 (node pool not found)")
	_, err = a.Agent().Host("", "", nil)
	a.refused(err, "501 (facts of the host are not collected")
	_, err = a.Agent().GetSchedulerWorkersInfo(nil)
	a.refused(err, "501 (the scheduler's workers are not shown")
	_, err = a.Agent().ListKeys()
	a.refused(err, "501 (there is no gossip")
}

func pools(a *agent) {
	list, _, err := a.NodePools().List(nil)
	a.ok(err)
	one, _, err := a.NodePools().Info("default", nil)
	a.ok(err)
	nodes, _, err := a.NodePools().ListNodes("all", nil)
	a.ok(err)
	jobs, _, err := a.NodePools().ListJobs("default", nil)
	a.ok(err)
	if len(list) != 2 || one.Name != "default" || len(nodes) != 1 || len(jobs) == 0 {
		a.t.Errorf("pools %+v, %+v, %d nodes, %d jobs", list, one, len(nodes), len(jobs))
	}
	_, _, err = a.NodePools().Info("nope", nil)
	a.refused(err, "404 (node pool not found)")
}

// keys reads the key set as the client's own tests do before they begin.
func keys(a *agent) {
	a.eventually("a signing key is published", func() error {
		body, err := a.Raw().Response("/.well-known/jwks.json", nil)
		if err != nil {
			return err
		}
		defer body.Close()
		var set struct {
			Keys []struct{ Kid, Kty, Alg, Use string }
		}
		if err := json.NewDecoder(body).Decode(&set); err != nil {
			return err
		}
		list, _, err := a.Keyring().List(nil)
		if err != nil {
			return err
		}
		if len(set.Keys) != 1 || len(list) != 1 || list[0].KeyID != set.Keys[0].Kid || set.Keys[0].Use != "sig" {
			return fmt.Errorf("the set is %+v, the list %+v", set, list)
		}
		return nil
	})
}
