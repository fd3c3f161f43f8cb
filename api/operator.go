package api

// SchedulerConfiguration is what operators may change of the scheduler.
type SchedulerConfiguration struct {
	SchedulerAlgorithm            string
	PreemptionConfig              PreemptionConfig
	MemoryOversubscriptionEnabled bool
	RejectJobRegistration         bool
	PauseEvalBroker               bool
	NodeLimitForFeasibilityChecks int
	CreateIndex                   uint64
	ModifyIndex                   uint64
}

// PreemptionConfig says which job types may displace others.
type PreemptionConfig struct {
	SystemSchedulerEnabled   bool
	SysBatchSchedulerEnabled bool
	BatchSchedulerEnabled    bool
	ServiceSchedulerEnabled  bool
}

// SchedulerConfigurationResponse is the reply to a read of the scheduler's configuration.
type SchedulerConfigurationResponse struct {
	SchedulerConfig *SchedulerConfiguration
	QueryMeta
}

// SchedulerSetConfigurationResponse is the reply to a change of it.
type SchedulerSetConfigurationResponse struct {
	Updated bool
	Index   uint64
}

// RaftConfiguration are the members of the consensus group.
type RaftConfiguration struct {
	Servers []*RaftServer
	Index   uint64
}

// RaftServer is one member of the consensus group.
type RaftServer struct {
	ID           string
	Node         string
	Address      string
	Leader       bool
	Voter        bool
	RaftProtocol string
}

// MetricsSummary are an agent's metrics of the last interval.
type MetricsSummary struct {
	Timestamp string
	Gauges    []GaugeValue
	Points    []PointValue
	Counters  []SampledValue
	Samples   []SampledValue
}

// GaugeValue is a metric that goes up and down.
type GaugeValue struct {
	Name   string
	Value  float32
	Labels map[string]string
}

// PointValue is a list of single values.
type PointValue struct {
	Name   string
	Points []float32
}

// SampledValue is a metric over an interval.
type SampledValue struct {
	Name   string
	Count  int
	Rate   float64
	Sum    float64
	Min    float64
	Max    float64
	Mean   float64
	Stddev float64
	Labels map[string]string
}
