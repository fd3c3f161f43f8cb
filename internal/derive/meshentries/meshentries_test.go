package meshentries_test

import (
	"encoding/json"
	"testing"

	"berth/internal/derive/meshentries"
	"berth/internal/model/job"
)

func gateway(name string, g *job.Gateway) *job.Service {
	return &job.Service{Name: name, Connect: &job.Connect{Gateway: g}}
}

// TestWhatAGatewayDoesIsWrittenAsConsulHasIt: all that a job says of its listeners and of what is behind them, and by
// which version of which job; one between meshes needs nothing.
func TestWhatAGatewayDoesIsWrittenAsConsulHasIt(t *testing.T) {
	j := &job.Job{
		Namespace:      "default",
		ID:             "edge",
		JobModifyIndex: 7,
		TaskGroups: []*job.TaskGroup{{Services: []*job.Service{
			{Name: "plain"},
			gateway("in", &job.Gateway{Ingress: &job.IngressGateway{
				TLS: &job.GatewayTLS{Enabled: true, TLSMinVersion: "TLSv1_2", TLSMaxVersion: "TLSv1_3"},
				Listeners: []*job.IngressListener{{
					Port:     8080,
					Protocol: "http",
					TLS: &job.GatewayTLS{
						CipherSuites: []string{"c"},
						SDS:          &job.GatewaySDS{ClusterName: "sds", CertResource: "r"},
					},
					Services: []*job.IngressService{{
						Name:                  "web",
						Hosts:                 []string{"web.example"},
						MaxConnections:        5,
						MaxPendingRequests:    6,
						MaxConcurrentRequests: 7,
						RequestHeaders: &job.HeaderModifiers{
							Add:    map[string]string{"a": "b"},
							Remove: []string{"c"},
						},
						ResponseHeaders: &job.HeaderModifiers{Set: map[string]string{"d": "e"}},
					}},
				}},
			}}),
			gateway("out", &job.Gateway{Terminating: &job.TerminatingGateway{Services: []*job.LinkedService{{
				Name:     "ext",
				CAFile:   "/ca",
				CertFile: "/cert",
				KeyFile:  "/key",
				SNI:      "ext.example",
			}}}}),
			gateway("between", &job.Gateway{Mesh: &job.BetweenMeshes{}}),
		}}},
	}
	const meta = `"Meta":{"berth-incarnation":"i","berth-job":"default/edge","berth-job-modify-index":"7",` +
		`"external-source":"nomad"}`
	want := []string{
		`{"Kind":"ingress-gateway","Listeners":[{"Port":8080,"Protocol":"http","Services":[{"Hosts":["web.example"],` +
			`"MaxConcurrentRequests":7,` +
			`"MaxConnections":5,"MaxPendingRequests":6,"Name":"web",` +
			`"RequestHeaders":{"Add":{"a":"b"},"Remove":["c"],"Set":null},` +
			`"ResponseHeaders":{"Add":null,"Remove":null,"Set":{"d":"e"}}}],` +
			`"TLS":{"CipherSuites":["c"],"Enabled":false,"SDS":{"CertResource":"r","ClusterName":"sds"}}}],` + meta +
			`,"Name":"in","TLS":{"Enabled":true,"TLSMaxVersion":"TLSv1_3","TLSMinVersion":"TLSv1_2"}}`,
		`{"Kind":"terminating-gateway",` + meta + `,"Name":"out","Services":[{"CAFile":"/ca","CertFile":"/cert",` +
			`"KeyFile":"/key","Name":"ext","SNI":"ext.example"}]}`,
	}
	got := meshentries.Of(j, "i")
	if len(got) != len(want) {
		t.Fatalf("%+v", got)
	}
	for i, e := range got {
		text, err := json.Marshal(e.Body)
		if err != nil || string(text) != want[i] {
			t.Errorf("%s\nwant\n%s\n%v", text, want[i], err)
		}
	}
}
