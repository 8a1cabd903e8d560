package envoy

import (
	"os"
	"regexp"
	"strings"
	"testing"

	bootstrapv3 "github.com/envoyproxy/go-control-plane/envoy/config/bootstrap/v3"
	_ "github.com/envoyproxy/go-control-plane/envoy/extensions/access_loggers/stream/v3"                   // used in the configuration
	_ "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/ext_authz/v3"                  // used in the configuration
	_ "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/ratelimit/v3"                  // used in the configuration
	_ "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/router/v3"                     // used in the configuration
	_ "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3" // used in the configuration
	_ "github.com/envoyproxy/go-control-plane/envoy/extensions/upstreams/http/v3"                          // used in the configuration
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/anypb"
	"sigs.k8s.io/yaml"
)

// TestDocs_EnvoyConfigurationIsValid parses the configuration in the document into the types of Envoy and validates their fields.
func TestDocs_EnvoyConfigurationIsValid(t *testing.T) {
	document, err := os.ReadFile("../../../docs/how-to/envoy.md")
	if err != nil {
		t.Fatal(err)
	}
	blocks := regexp.MustCompile("(?s)```yaml\n(static_resources:.*?)```").FindStringSubmatch(string(document))
	if blocks == nil {
		t.Fatal("docs/how-to/envoy.md has no configuration")
	}
	text, err := yaml.YAMLToJSONStrict([]byte(blocks[1]))
	if err != nil {
		t.Fatal(err)
	}
	var config bootstrapv3.Bootstrap
	if err := protojson.Unmarshal(text, &config); err != nil {
		t.Fatal(err)
	}
	packed := 0
	validate(t, &config, &packed)
	if named := strings.Count(blocks[1], `"@type"`); packed != named {
		t.Errorf("%d typed configurations validated of %d", packed, named)
	}
}

// validate checks the field rules of m and of the messages packed in it.
func validate(t *testing.T, m proto.Message, packed *int) {
	t.Helper()
	if v, ok := m.(interface{ ValidateAll() error }); ok {
		if err := v.ValidateAll(); err != nil {
			t.Errorf("%s: %v", m.ProtoReflect().Descriptor().FullName(), err)
		}
	}
	walk(m.ProtoReflect(), func(inner *anypb.Any) {
		unpacked, err := inner.UnmarshalNew()
		if err != nil {
			t.Fatal(err)
		}
		*packed++
		validate(t, unpacked, packed)
	})
}

// walk visits each message that is packed in m.
func walk(m protoreflect.Message, visit func(*anypb.Any)) {
	if packed, ok := m.Interface().(*anypb.Any); ok {
		visit(packed)
		return
	}
	m.Range(func(field protoreflect.FieldDescriptor, value protoreflect.Value) bool {
		switch {
		case field.IsMap():
			if field.MapValue().Message() != nil {
				value.Map().Range(func(_ protoreflect.MapKey, v protoreflect.Value) bool {
					walk(v.Message(), visit)
					return true
				})
			}
		case field.Message() == nil:
		case field.IsList():
			for i := range value.List().Len() {
				walk(value.List().Get(i).Message(), visit)
			}
		default:
			walk(value.Message(), visit)
		}
		return true
	})
}
