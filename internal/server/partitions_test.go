package server

import (
	"slices"
	"testing"

	"berth/internal/base/fault"
	"berth/internal/base/ids"
	"berth/internal/model/acl"
	"berth/internal/model/partition"
	"berth/internal/wire"
)

// Given node pools and namespaces, and a token that may read one of each, when it lists and reads them, then it sees
// these alone, and hears of another only that it may not.
func TestAPoolAndANamespaceAreShownToWhoMaySeeThem(t *testing.T) {
	_, here, _ := serves(t, Config{})
	first, err := wire.ACLBootstrap.Call(wire.For(t.Context(), wire.Person{Local: true}), here,
		&wire.ACLBootstrapRequest{})
	if err != nil {
		t.Fatal(err)
	}
	manager := wire.For(t.Context(), wire.Person{Token: first.Secret.Secret()})
	for _, name := range []string{"gpu", "gpu2"} {
		do(t, here, wire.NodePoolPut, &wire.NodePoolPutRequest{Pool: partition.NodePool{Name: name}})
		do(t, here, wire.NamespacePut, &wire.NamespacePutRequest{
			Namespace: partition.Namespace{Name: ids.Namespace(name)},
		})
	}
	rules := "node_pool \"gpu\" { policy = \"read\" }\nnamespace \"gpu\" { capabilities = [\"list-jobs\"] }"
	if _, err := wire.ACLPolicyPut.Call(manager, here, &wire.ACLPolicyPutRequest{Name: "r", Rules: rules}); err != nil {
		t.Fatal(err)
	}
	made, err := wire.ACLTokenPut.Call(manager, here, &wire.ACLTokenPutRequest{
		Name: "r", Type: acl.ClientToken, Policies: []string{"r"},
	})
	if err != nil {
		t.Fatal(err)
	}
	reader := wire.For(t.Context(), wire.Person{Token: made.Secret.Secret()})
	pools, err := wire.NodePoolList.Call(reader, here, &wire.Query{})
	if err != nil || len(pools.Items) != 1 || pools.Items[0].Name != "gpu" {
		t.Errorf("the pools are %+v, %v", pools, err)
	}
	all, err := wire.NodePoolList.Call(manager, here, &wire.Query{Page: wire.Page{PerPage: 3}})
	if err != nil || len(all.Items) != 3 || all.NextToken != "gpu2" {
		t.Errorf("the first page of all is %+v, %v", all, err)
	}
	spaces, err := wire.NamespaceList.Call(reader, here, &wire.Query{})
	if err != nil || len(spaces.Items) != 1 || spaces.Items[0].Name != "gpu" {
		t.Errorf("the namespaces are %+v, %v", spaces, err)
	}
	for _, name := range []ids.Namespace{"gpu", "gpu2", "none"} {
		n, err := wire.NamespaceGet.Call(reader, here, &wire.Ref[ids.Namespace]{ID: name})
		if seen := name == "gpu"; seen && (err != nil || n.Item == nil) || !seen && !fault.Has(err, fault.Denied) {
			t.Errorf("namespace %s: %v", name, err)
		}
	}
	found, err := wire.SystemSearch.Call(reader, here, &wire.SearchRequest{Prefix: "g", Context: "all"})
	if err != nil || !slices.Equal(found.Matches["node_pools"], []string{"gpu"}) ||
		!slices.Equal(found.Matches["namespaces"], []string{"gpu"}) {
		t.Errorf("a search finds %+v, %v", found, err)
	}
}
