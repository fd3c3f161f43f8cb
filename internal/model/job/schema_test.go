package job

import "testing"

// Given a job whose groups ask for what older servers and nodes would take for something else, then the cluster has to
// be at the schema that knows it; one that asks for nothing of that needs none.
func TestWhatAnOlderServerWouldTakeForAnotherJob(t *testing.T) {
	for name, c := range map[string]struct {
		network NetworkResource
		want    uint64
	}{
		"ports of the node":        {NetworkResource{ReservedPorts: []Port{{Value: 80}}}, 0},
		"a network of CNI plugins": {NetworkResource{Mode: "cni/lab"}, SchemaCNI},
		"a shared port": {
			NetworkResource{ReservedPorts: []Port{{IgnoreCollision: true}}}, SchemaSharedPorts,
		},
		"arguments to CNI plugins": {NetworkResource{Mode: "cni/lab", CNI: &CNI{}}, SchemaCNI},
	} {
		j := &Job{TaskGroups: []*TaskGroup{{Networks: []*NetworkResource{&c.network}}}}
		if got := j.Schema(); got != c.want {
			t.Errorf("%s needs schema %d, want %d", name, got, c.want)
		}
	}
}

// Given a plugin that says how many calls it takes at once, then every server has to know that; one that does not say
// it is as it was.
func TestWhatAnOlderServerWouldTakeForAnotherPlugin(t *testing.T) {
	for most, want := range map[int]uint64{0: 0, 1: SchemaCallsAtOnce} {
		j := &Job{TaskGroups: []*TaskGroup{{Tasks: []*Task{
			{}, {CSIPluginConfig: &CSIPluginConfig{ID: "p", MaxParallel: most}},
		}}}}
		if got := j.Schema(); got != want {
			t.Errorf("%d calls at once need schema %d, want %d", most, got, want)
		}
	}
}

// Given services that older servers would take for others, then the cluster has to be at the schema that knows them.
func TestWhatAnOlderServerWouldTakeForAnotherService(t *testing.T) {
	for name, c := range map[string]struct {
		service Service
		want    uint64
	}{
		"one of the cluster":     {Service{Provider: "nomad"}, 0},
		"one of Consul":          {Service{Provider: ProviderConsul}, SchemaConsul},
		"a member of the mesh":   {Service{Provider: ProviderConsul, Connect: &Connect{Native: true}}, SchemaMesh},
		"one with an identity":   {Service{Provider: "nomad", Identity: &WorkloadIdentity{}}, SchemaServiceIdentities},
		"one with canaries' own": {Service{Provider: "nomad", CanaryTags: []string{"a"}}, SchemaScripts},
	} {
		j := &Job{TaskGroups: []*TaskGroup{{Services: []*Service{&c.service}}}}
		if got := j.Schema(); got != c.want {
			t.Errorf("%s needs schema %d, want %d", name, got, c.want)
		}
	}
}
