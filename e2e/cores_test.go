package e2e

import (
	"encoding/json"
	"runtime"
	"strings"
	"testing"

	"berth/api"
)

// TestATaskGetsTheCoresThatItsJobAsksFor: from the job file over the scheduler to the kernel, and to what the API tells
// of it; and the other task of the node stays off them.
func TestATaskGetsTheCoresThatItsJobAsksFor(t *testing.T) {
	if runtime.NumCPU() < 2 {
		t.Skip("one core cannot be shared out")
	}
	m := prepare(t, false)
	m.start()
	const tell = "grep Cpus_allowed_list /proc/self/status; echo cores=$NOMAD_CPU_CORES; echo told; exec sleep 1000"
	m.run(strings.Replace(shellJob("alone", "exec", tell, ""), "cpu    = 20", "cores  = 1", 1))
	a := m.running("alone", 1)[0]
	m.eventually("the task to tell its cores", func() bool { return strings.Contains(m.output(a.ID), "told") })
	if got := m.output(a.ID); !strings.Contains(got, "Cpus_allowed_list:\t0\n") || !strings.Contains(got, "cores=0\n") {
		t.Errorf("the task says %q", got)
	}
	m.run(shellJob("others", "exec", tell, ""))
	b := m.running("others", 1)[0]
	m.eventually("the task to tell its cores", func() bool { return strings.Contains(m.output(b.ID), "told") })
	if got := m.output(b.ID); strings.Contains(got, "Cpus_allowed_list:\t0") || !strings.Contains(got, "cores=\n") {
		t.Errorf("the other task says %q", got)
	}
	var full api.Allocation
	if err := json.Unmarshal([]byte(m.mustCLI("alloc", "status", "-json", a.ID)), &full); err != nil {
		t.Fatal(err)
	}
	cpu := full.AllocatedResources.Tasks["t"].Cpu
	if len(cpu.ReservedCores) != 1 || cpu.ReservedCores[0] != 0 || cpu.CpuShares == 0 {
		t.Errorf("the API says %+v", cpu)
	}
	m.stopJob("alone")
	m.stopJob("others")
}
