package arch

import "slices"

// module is the path of the Weir module. Package paths in the tables are relative to it.
const module = "github.com/weir-dev/weir"

// A layer lists the packages that a package can import. Every package can import the standard library.
type layer struct {
	pkg      string   // path relative to module; "a/..." is a and all packages below it
	internal []string // packages of Weir, in the same form as pkg
	external []string // other packages: a path is that package and all packages below it; "..." is every package
}

// layers lists every package of the module, from the lowest to the highest. A package can import only packages that are earlier in this list.
func layers() []layer {
	return []layer{
		{pkg: "limiter"},
		{pkg: "api/v1alpha1/policyapi"},
		{pkg: "api/v1alpha1", internal: []string{"api/v1alpha1/policyapi"}, external: []string{"k8s.io/apimachinery", "k8s.io/api/core", "k8s.io/api/networking"}},
		{pkg: "config/crd"}, // embeds the CRDs
		{pkg: "internal/terminal", external: []string{"sigs.k8s.io/yaml"}},

		{
			pkg:      "api/v1alpha1/applyconfiguration/...", // generated
			internal: []string{"api/v1alpha1", "api/v1alpha1/policyapi", "api/v1alpha1/applyconfiguration/..."},
			external: []string{
				"k8s.io/api/core", "k8s.io/api/networking", "k8s.io/apimachinery", "k8s.io/client-go/applyconfigurations", "sigs.k8s.io/structured-merge-diff",
			},
		},
		{pkg: "limiter/clientip"},
		{pkg: "limiter/rules/policyname"},
		{pkg: "limiter/rules/reading"},
		{pkg: "limiter/rules/gzipped"},
		{pkg: "limiter/rules", internal: []string{"limiter", "limiter/clientip", "limiter/rules/gzipped", "limiter/rules/reading"}},
		{pkg: "limiter/rules/pattern", internal: []string{"limiter/clientip", "limiter/rules"}, external: []string{"github.com/gaissmai/bart"}},
		{pkg: "limiter/rules/expr", internal: []string{"limiter/rules", "limiter/rules/reading"}},
		{pkg: "limiter/rules/credentials", internal: []string{"limiter/rules"}},
		{
			pkg:      "limiter/rules/expr/celexpr", // programs choose it by an import
			internal: []string{"limiter/clientip", "limiter/rules", "limiter/rules/credentials", "limiter/rules/expr", "limiter/rules/pattern", "limiter/rules/reading"},
			external: []string{"github.com/google/cel-go"},
		},
		{pkg: "limiter/rules/route", internal: []string{"limiter/rules", "limiter/rules/pattern"}},
		{pkg: "limiter/rules/endpoint", internal: []string{"limiter/rules"}},
		{pkg: "limiter/rules/methods", internal: []string{"limiter/rules"}},
		{pkg: "limiter/persistent"},
		{pkg: "limiter/rules/tables", internal: []string{"limiter/persistent", "limiter/rules", "limiter/rules/pattern", "limiter/rules/reading"}},
		{
			pkg: "limiter/rules/matching",
			internal: []string{
				"limiter", "limiter/clientip", "limiter/persistent", "limiter/rules", "limiter/rules/endpoint", "limiter/rules/expr", "limiter/rules/methods", "limiter/rules/pattern",
				"limiter/rules/policyname", "limiter/rules/reading", "limiter/rules/route", "limiter/rules/tables",
			},
			external: []string{"github.com/gaissmai/bart"},
		},
		{pkg: "limiter/mutualtls", internal: []string{"limiter"}},
		{pkg: "limiter/exempt", internal: []string{"limiter/rules"}},
		{pkg: "limiter/memstore", internal: []string{"limiter"}},
		{pkg: "limiter/wait"},
		{pkg: "limiter/redisclient/wire"},
		{pkg: "limiter/redisclient/hosts"},
		{pkg: "limiter/redisclient/nodecert"},
		{pkg: "limiter/redisclient/proxied", external: []string{"github.com/redis/go-redis"}},
		{pkg: "limiter/redisclient/endpoints", external: []string{"github.com/redis/go-redis"}},
		{pkg: "limiter/redisclient/prepare", external: []string{"github.com/redis/go-redis"}},
		{
			pkg: "limiter/redisclient",
			internal: []string{
				"limiter", "limiter/redisclient/endpoints", "limiter/redisclient/hosts", "limiter/redisclient/nodecert",
				"limiter/redisclient/prepare", "limiter/redisclient/proxied", "limiter/redisclient/wire", "limiter/wait",
			},
			external: []string{"github.com/redis/go-redis"},
		},
		{pkg: "limiter/redisclient/identity", internal: []string{"limiter/redisclient", "limiter/wait"}},
		{pkg: "limiter/redisclient/identity/aws", internal: []string{"limiter/redisclient/identity"}, external: []string{"github.com/aws/aws-sdk-go-v2/aws"}},
		{pkg: "limiter/redisclient/identity/google", internal: []string{"limiter/redisclient/identity"}},
		{pkg: "limiter/redisclient/identity/azure", internal: []string{"limiter/redisclient/identity"}},
		{
			pkg: "limiter/redisclient/identity/providers", // programs choose it by an import
			internal: []string{
				"limiter/redisclient/identity", "limiter/redisclient/identity/aws", "limiter/redisclient/identity/azure", "limiter/redisclient/identity/google",
			},
		},
		{pkg: "limiter/redisclient/redischeck", internal: []string{"limiter/redisclient"}, external: []string{"github.com/redis/go-redis"}},
		{pkg: "limiter/bypass", internal: []string{"limiter/rules/policyname"}},
		{pkg: "limiter/tracing", external: []string{"go.opentelemetry.io/otel", "github.com/prometheus/client_golang", "golang.org/x/time"}},
		{
			pkg: "limiter/tracing/otlp", internal: []string{"limiter/tracing"},
			external: []string{
				"go.opentelemetry.io/otel", "go.opentelemetry.io/proto/otlp", "google.golang.org/grpc", "github.com/prometheus/client_golang", "golang.org/x/time",
			},
		},
		{pkg: "limiter/overload", internal: []string{"limiter"}},
		{pkg: "limiter/redisstore/hashslot"},
		{pkg: "limiter/redisstore/roundtrip"},
		{pkg: "limiter/redisstore/together"},
		{pkg: "limiter/redisstore/lasting", internal: []string{"limiter", "limiter/wait"}},
		{pkg: "limiter/redisstore/quarantine", internal: []string{"limiter", "limiter/wait"}},
		{
			pkg: "limiter/redisstore/bypasses", internal: []string{"limiter/bypass", "limiter/redisclient"},
			external: []string{"github.com/redis/go-redis"},
		},
		{pkg: "limiter/redisstore/lua", internal: []string{"limiter", "limiter/redisclient"}},
		{
			pkg: "limiter/redisstore", internal: []string{"limiter", "limiter/overload", "limiter/redisclient", "limiter/redisstore/hashslot", "limiter/redisstore/lasting", "limiter/redisstore/lua", "limiter/redisstore/quarantine", "limiter/redisstore/roundtrip", "limiter/redisstore/together", "limiter/tracing", "limiter/wait"},
			external: []string{"github.com/redis/go-redis", "golang.org/x/sync"},
		},
		{pkg: "limiter/controlplane", internal: []string{"limiter", "limiter/redisclient", "limiter/rules"}, external: []string{"github.com/redis/go-redis"}},
		{pkg: "limiter/storetest", internal: []string{"limiter"}, external: []string{"github.com/google/go-cmp", "pgregory.net/rapid"}},

		{pkg: "limiter/denials", internal: []string{"limiter"}, external: []string{"github.com/maypok86/otter"}},
		{pkg: "limiter/local", internal: []string{"limiter"}},
		{
			pkg:      "limiter/failover",
			internal: []string{"limiter", "limiter/local", "limiter/wait"},
			external: []string{"github.com/prometheus/client_golang", "golang.org/x/sync", "golang.org/x/time"},
		},
		{pkg: "limiter/topk"},
		{pkg: "limiter/hyperloglog"},
		{pkg: "limiter/lease", internal: []string{"limiter"}, external: []string{"github.com/prometheus/client_golang"}},
		{pkg: "limiter/bound", internal: []string{"limiter", "limiter/hyperloglog"}, external: []string{"github.com/prometheus/client_golang"}},
		{
			pkg:      "limiter/store",
			internal: []string{"limiter", "limiter/bound", "limiter/denials", "limiter/failover", "limiter/lease", "limiter/tracing"},
			external: []string{"github.com/prometheus/client_golang"},
		},
		{pkg: "limiter/decision", internal: []string{"limiter", "limiter/bypass", "limiter/rules", "limiter/rules/matching"}},
		{
			pkg:      "limiter/engine",
			internal: []string{"limiter", "limiter/decision", "limiter/rules", "limiter/rules/matching", "limiter/bypass", "limiter/topk", "limiter/tracing"},
			external: []string{"github.com/prometheus/client_golang", "go.opentelemetry.io/otel/attribute"},
		},
		{pkg: "limiter/source", internal: []string{"limiter/rules"}, external: []string{"github.com/fsnotify/fsnotify"}},
		{pkg: "internal/lintrule"},
		{pkg: "internal/compile/budget", internal: []string{"limiter/rules"}},
		{pkg: "internal/compile/labelselector", internal: []string{"api/v1alpha1/policyapi", "limiter/rules"}},
		{pkg: "internal/compile/lists"},
		{pkg: "internal/compile/redundancy", internal: []string{"api/v1alpha1/policyapi", "internal/compile/lists", "limiter", "limiter/rules", "limiter/rules/pattern", "limiter/rules/policyname"}},
		{
			pkg: "internal/compile/gateway", internal: []string{"api/v1alpha1/policyapi", "limiter/rules"},
		},
		{
			pkg: "internal/compile/routetable", internal: []string{"api/v1alpha1/policyapi", "limiter/rules", "limiter/rules/route", "internal/compile/budget", "internal/compile/gateway", "internal/compile/labelselector"},
		},
		{
			pkg:      "internal/compile/warning",
			internal: []string{"api/v1alpha1/policyapi", "limiter/exempt", "limiter/rules", "limiter/rules/credentials", "limiter/rules/policyname", "internal/compile/gateway", "internal/compile/redundancy", "internal/lintrule"},
		},
		{pkg: "internal/compile/window", internal: []string{"api/v1alpha1/policyapi", "limiter"}},
		{pkg: "internal/compile/rate", internal: []string{"api/v1alpha1/policyapi", "internal/compile/window", "limiter"}},
		{
			pkg:      "internal/compile/lowering",
			internal: []string{"api/v1alpha1/policyapi", "limiter", "limiter/rules/...", "internal/compile/labelselector", "internal/compile/rate", "internal/compile/window"},
		},
		{
			pkg: "internal/compile",
			internal: []string{
				"api/v1alpha1/policyapi", "limiter", "limiter/rules/...", "internal/compile/budget", "internal/compile/gateway", "internal/compile/lowering", "internal/compile/redundancy",
				"internal/compile/routetable", "internal/compile/lists",
			},
		},

		{
			pkg:      "limiter/reply",
			internal: []string{"limiter", "limiter/rules", "limiter/rules/matching", "limiter/decision"},
			external: []string{"github.com/dunglas/httpsfv"},
		},
		{
			pkg:      "limiter/server/address",
			internal: []string{"limiter/clientip"},
			external: []string{"github.com/gaissmai/bart", "github.com/pires/go-proxyproto"},
		},
		{pkg: "limiter/socket", internal: []string{"limiter/overload"}},
		{
			pkg:      "limiter/server",
			internal: []string{"limiter", "limiter/clientip", "limiter/rules", "limiter/engine", "limiter/reply", "limiter/overload", "limiter/server/address", "limiter/socket", "limiter/tracing", "limiter/wait"},
			external: []string{"github.com/prometheus/client_golang"},
		},
		{
			pkg:      "limiter/decisionlog",
			internal: []string{"limiter", "limiter/engine"},
			external: []string{"github.com/prometheus/client_golang"},
		},
		{pkg: "limiter/admin/adminapi"}, // shared with controllers/adminproxy
		{
			pkg: "limiter/admin",
			internal: []string{
				"limiter/admin/adminapi", "limiter", "limiter/rules", "limiter/rules/credentials", "limiter/rules/matching", "limiter/rules/policyname", "limiter/bypass", "limiter/engine", "limiter/reply", "limiter/server", "limiter/topk", "limiter/decisionlog",
			},
			external: []string{"github.com/prometheus"},
		},
		{
			pkg: "limiter/server/h2", internal: []string{"limiter/overload"},
			external: []string{"golang.org/x/net/http", "golang.org/x/net/http2", "google.golang.org/grpc"},
		},
		{pkg: "limiter/server/envoy/wire", internal: []string{"limiter/rules"}, external: []string{"google.golang.org/protobuf/encoding/protowire"}},
		{
			pkg: "limiter/server/envoy",
			internal: []string{
				"limiter", "limiter/clientip", "limiter/rules", "limiter/rules/route", "limiter/engine", "limiter/reply", "limiter/overload", "limiter/server/envoy/wire", "limiter/server/h2",
				"limiter/socket", "limiter/tracing",
			},
			external: []string{
				"github.com/envoyproxy/go-control-plane", "github.com/grpc-ecosystem/go-grpc-middleware",
				"google.golang.org/grpc", "google.golang.org/genproto", "google.golang.org/protobuf", "golang.org/x/time",
			},
		},
		{
			pkg:      "limiter/xds",
			internal: []string{"limiter/wait"},
			external: []string{
				"github.com/envoyproxy/go-control-plane/envoy", "github.com/prometheus/client_golang", "google.golang.org/grpc", "google.golang.org/genproto",
				"google.golang.org/protobuf",
			},
		},
		{
			pkg:      "go/httplimit",
			internal: []string{"limiter", "limiter/clientip", "limiter/rules", "limiter/decision", "limiter/reply", "limiter/server/address", "limiter/wait"},
			external: []string{"github.com/sony/gobreaker", "golang.org/x/time"},
		},
		{
			pkg:      "go/grpclimit",
			internal: []string{"limiter", "limiter/clientip", "limiter/rules", "limiter/rules/reading", "limiter/decision", "limiter/reply", "go/httplimit"},
			external: []string{"google.golang.org/grpc", "google.golang.org/genproto", "google.golang.org/protobuf"},
		},
		{pkg: "internal/policyfile/structure", internal: []string{"api/v1alpha1/policyapi", "internal/compile/labelselector"}},
		{pkg: "internal/policyfile/hint", internal: []string{"internal/policyfile/structure"}},
		{
			pkg:      "internal/policyfile",
			internal: []string{"api/v1alpha1/policyapi", "limiter/rules", "limiter/rules/policyname", "internal/compile/...", "internal/lintrule", "internal/policyfile/hint", "internal/policyfile/structure", "internal/terminal"},
			external: []string{"sigs.k8s.io/json", "sigs.k8s.io/yaml", "go.yaml.in/yaml"},
		},
		{
			pkg:      "internal/policyfile/apischema",
			internal: []string{"api/v1alpha1", "config/crd"},
			external: []string{"k8s.io/api", "k8s.io/apimachinery", "k8s.io/apiextensions-apiserver", "k8s.io/apiserver", "k8s.io/utils", "sigs.k8s.io/yaml"},
		},
		{
			pkg: "internal/stored",
			internal: []string{
				"api/v1alpha1", "api/v1alpha1/policyapi", "internal/compile", "internal/compile/budget", "internal/compile/gateway", "internal/compile/redundancy",
				"limiter/exempt", "limiter/rules", "limiter/rules/credentials", "limiter/rules/policyname",
			},
			external: []string{"k8s.io/apimachinery/pkg"},
		},
		{pkg: "go/weir/cel", internal: []string{"limiter/rules/expr/celexpr"}},
		{
			pkg:      "go/weir/directory",
			internal: []string{"limiter/rules", "limiter/source", "internal/compile", "internal/policyfile"},
		},
		{
			pkg: "go/weir",
			internal: []string{
				"api/v1alpha1/policyapi", "go/weir/directory", "internal/compile", "internal/policyfile", "internal/policyfile/structure", "limiter", "limiter/denials", "limiter/engine", "limiter/failover", "limiter/lease",
				"limiter/local", "limiter/memstore", "limiter/redisclient", "limiter/redisclient/redischeck", "limiter/redisstore", "limiter/rules", "limiter/rules/matching",
				"limiter/source", "limiter/store", "go/httplimit",
			},
			external: []string{
				"github.com/prometheus/client_golang", "github.com/redis/go-redis", // the type of a client that a program hands over, see NewRedisClient
				"golang.org/x/time", "sigs.k8s.io/yaml",
			},
		},
		{pkg: "internal/accesslog/logtext"},
		{pkg: "internal/accesslog/jsonscan", internal: []string{"internal/accesslog/logtext"}},
		{pkg: "internal/accesslog/logtime", internal: []string{"internal/accesslog/logtext"}},
		{pkg: "internal/accesslog/format", internal: []string{"internal/accesslog/jsonscan", "internal/accesslog/logtext", "internal/accesslog/logtime", "limiter/clientip", "limiter/rules"}},
		{pkg: "internal/accesslog", internal: []string{"internal/accesslog/format"}, external: []string{"github.com/klauspost/compress"}},
		{pkg: "internal/importer/toml", external: []string{"github.com/pelletier/go-toml", "go.yaml.in/yaml"}},
		{
			pkg:      "internal/importer",
			internal: []string{"api/v1alpha1", "limiter", "limiter/rules", "limiter/rules/credentials", "limiter/rules/policyname", "internal/compile/window", "internal/importer/toml", "internal/lintrule", "internal/policyfile", "internal/terminal"},
			external: []string{"k8s.io/apimachinery", "sigs.k8s.io/yaml", "go.yaml.in/yaml"},
		},
		{
			pkg:      "internal/importer/...",
			internal: []string{"api/v1alpha1", "limiter", "limiter/rules", "limiter/rules/credentials", "limiter/rules/matching", "limiter/rules/pattern", "limiter/rules/reading", "internal/compile/rate", "internal/compile/window", "internal/policyfile", "internal/importer", "internal/importer/traefikrule"},
			external: []string{"github.com/envoyproxy/go-control-plane/ratelimit", "google.golang.org/protobuf"},
		},
		{
			pkg: "internal/ratelimitservice",
			internal: []string{
				"api/v1alpha1/policyapi", "limiter", "limiter/rules", "limiter/rules/credentials", "limiter/rules/policyname", "internal/compile", "internal/compile/window", "internal/importer", "internal/importer/...",
			},
			external: []string{"github.com/envoyproxy/go-control-plane/ratelimit", "google.golang.org/protobuf"},
		},
		{
			pkg:      "webhook/policy",
			internal: []string{"internal/stored", "api/v1alpha1", "limiter", "limiter/rules", "internal/compile/..."},
			external: []string{"k8s.io/apimachinery", "k8s.io/client-go/tools/cache", "sigs.k8s.io/controller-runtime"},
		},
		{
			pkg:      "webhook/certificate",
			external: []string{"k8s.io/api", "k8s.io/apimachinery", "k8s.io/client-go", "sigs.k8s.io/controller-runtime"},
		},
		{
			pkg:      "webhook/throttle", // part of the limiter
			internal: []string{"limiter", "limiter/exempt", "limiter/rules", "limiter/engine", "limiter/reply", "limiter/socket", "limiter/tracing"},
			external: []string{"go.opentelemetry.io/otel/attribute", "golang.org/x/sync", "k8s.io/api/admission", "k8s.io/apimachinery"},
		},
		{pkg: "controllers/adminproxy/proxyapi"}, // shared with cmd/kubectl-weir
		{
			pkg:      "controllers/adminproxy",
			internal: []string{"controllers/adminproxy/proxyapi", "api/v1alpha1", "limiter", "limiter/admin/adminapi", "limiter/mutualtls", "limiter/rules", "limiter/rules/policyname", "limiter/socket", "controllers/deployment", "controllers/hashkey", "controllers/limiterevents"},
			external: []string{"k8s.io/api", "k8s.io/apimachinery", "k8s.io/apiserver", "k8s.io/client-go", "sigs.k8s.io/controller-runtime"},
		},
		{
			pkg:      "controllers/...",
			internal: []string{"api/v1alpha1", "api/v1alpha1/applyconfiguration/...", "internal/compile/...", "internal/stored", "limiter", "limiter/exempt", "limiter/mutualtls", "limiter/rules", "controllers/..."},
			external: []string{
				"k8s.io/api", "k8s.io/apimachinery", "k8s.io/client-go", "sigs.k8s.io/controller-runtime", "sigs.k8s.io/gateway-api",
				"github.com/go-logr/logr", "github.com/prometheus/client_golang", "golang.org/x/sync", "golang.org/x/time",
			},
		},

		{pkg: "internal/replay/result"}, // for reports
		{pkg: "internal/replay/report/chart"},
		{pkg: "internal/replay/report", internal: []string{"internal/replay/report/chart", "internal/replay/result", "internal/terminal"}},
		{pkg: "internal/replay/demand", internal: []string{"limiter"}},
		{pkg: "internal/replay/counters", internal: []string{"limiter"}},
		{
			pkg: "internal/replay",
			internal: []string{
				"internal/accesslog", "internal/accesslog/format", "internal/replay/counters", "internal/replay/demand", "internal/replay/result", "limiter",
				"limiter/clientip", "limiter/engine", "limiter/exempt", "limiter/rules", "limiter/rules/matching",
			},
			external: []string{"github.com/prometheus/client_golang", "github.com/prometheus/client_model"},
		},
		{
			pkg: "internal/replay/simulate",
			internal: []string{
				"internal/policyfile", "internal/replay/report/chart", "limiter", "limiter/denials", "limiter/engine", "limiter/failover", "limiter/lease",
				"limiter/local", "limiter/memstore", "limiter/rules", "limiter/rules/matching", "limiter/store",
			},
			external: []string{"github.com/prometheus/client_golang", "sigs.k8s.io/yaml"},
		},
		{pkg: "cmd/...", internal: []string{"..."}, external: []string{"..."}},

		// The product does not import the packages below.
		{pkg: "internal/arch"},
		{pkg: "test/...", internal: []string{"..."}, external: []string{"..."}},
		{pkg: "hack/...", internal: []string{"..."}, external: []string{"..."}},
	}
}

// A ban lists packages that a package must not import, neither directly nor through other packages.
type ban struct {
	pkg       string   // package of Weir, in the same form as in layer; "a/... except a/b/..." leaves out some of them
	forbidden []string // full paths, including all packages below them
	reason    string
}

func bans() []ban {
	kubernetes := []string{"k8s.io", "sigs.k8s.io", module + "/api", module + "/internal/compile", module + "/controllers"}
	enforcement := []string{
		module + "/limiter/engine", module + "/limiter/failover", module + "/limiter/server", module + "/limiter/source",
		module + "/limiter/memstore", module + "/limiter/redisstore",
		module + "/limiter/redisclient", module + "/limiter/controlplane",
	}
	client := []string{"k8s.io/client-go", "sigs.k8s.io/controller-runtime"}
	redis := []string{"github.com/redis"}
	testPackages := []string{
		module + "/test", module + "/hack", module + "/limiter/storetest",
		"github.com/alicebob/miniredis", "sigs.k8s.io/controller-runtime/pkg/envtest",
	}
	return []ban{
		{"limiter/...", kubernetes, "a limiter does not depend on Kubernetes and has no Kubernetes credentials"},
		{"api/...", enforcement, "the operator does not enforce limits"},
		{"internal/... except internal/replay/...", enforcement, "the operator does not enforce limits"}, // only weir replays
		{"controllers/...", enforcement, "the operator does not enforce limits"},
		{"webhook/policy", enforcement, "the operator does not enforce limits"},
		{"webhook/policy", redis, "only redisclient, redisstore and controlplane import go-redis"},
		{"webhook/certificate", enforcement, "the operator does not enforce limits"},
		{"webhook/throttle", []string{"k8s.io/client-go", "sigs.k8s.io/controller-runtime", module + "/api"}, "a limiter replies to API servers and never calls them"},
		{"webhook/throttle", redis, "only redisclient, redisstore and controlplane import go-redis"},
		{"api/...", redis, "only redisclient, redisstore and controlplane import go-redis"},
		{"internal/...", redis, "only redisclient, redisstore and controlplane import go-redis"},
		{"controllers/...", redis, "only redisclient, redisstore and controlplane import go-redis; controllers define small interfaces"},
		{"limiter/rules/...", redis, "only redisclient, redisstore and controlplane import go-redis"},
		{"limiter/memstore", redis, "only redisclient, redisstore and controlplane import go-redis"},
		{"limiter/storetest", redis, "only redisclient, redisstore and controlplane import go-redis"},
		{"limiter/failover", redis, "only redisclient, redisstore and controlplane import go-redis; failover defines a small interface"},
		{"limiter/engine", redis, "only redisclient, redisstore and controlplane import go-redis"},
		{"limiter/source", redis, "only redisclient, redisstore and controlplane import go-redis; source defines a small interface"},
		{"limiter/server", redis, "only redisclient, redisstore and controlplane import go-redis"},
		{"go/grpclimit", kubernetes, "programs that use the middleware do not depend on Kubernetes"},
		{"go/grpclimit", redis, "only the Redis packages import go-redis"},
		{"go/httplimit", kubernetes, "programs that use the middleware do not depend on Kubernetes"},
		{"go/httplimit", redis, "only the Redis packages import go-redis, and the program that uses the middleware chooses its store"},
		{
			"go/httplimit",
			[]string{module + "/limiter/engine", "github.com/google/cel-go", "github.com/prometheus", "google.golang.org/protobuf"},
			"programs whose requests another limiter decides do without the engine",
		},
		{"go/httplimit", []string{"google.golang.org/grpc"}, "programs that serve only HTTP do not import gRPC"},
		{"go/weir", []string{"k8s.io", "sigs.k8s.io/controller-runtime", module + "/api/v1alpha1/applyconfiguration"}, "programs that decide in process do not depend on Kubernetes"},
		{"go/weir", []string{"github.com/google/cel-go", "google.golang.org/grpc"}, "a program chooses CEL with the package go/weir/cel, and gRPC with go/grpclimit"},
		{"internal/compile", []string{"k8s.io"}, "programs that decide in process compile policies"},
		{"cmd/...", testPackages, "the product does not import test packages"},
		{"cmd/weir", client, "weir is a limiter and tools for files, which a stranger compiles first: only weir-operator and kubectl-weir call API servers"},
		{"cmd/internal/...", client, "weir imports it, and has no Kubernetes client"},
		{"cmd/kubectl-weir", redis, "the plugin asks limiters through the operator"},
		{
			"test/fixture", slices.Concat(kubernetes, []string{"google.golang.org/grpc"}),
			"the tests of a limiter link and load fast; test/fixture/kubetest starts API servers",
		},
	}
}
