{{/* weir.labels: the standard labels of Helm charts. Weir does not select objects by them. */}}
{{- define "weir.labels" -}}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- end }}

{{/* weir.image: repository:tag, repository@digest or repository:tag@digest. */}}
{{- define "weir.image" -}}
{{- $image := .Values.image }}
{{- $image.repository }}
{{- if or $image.tag (not $image.digest) }}:{{ $image.tag | default .Chart.AppVersion }}{{ end }}
{{- if $image.digest }}@{{ $image.digest }}{{ end }}
{{- end }}

{{/*
weir.copied: the objects in a file of files/, which is a copy of a file in config/, with the namespace and the labels of the release.
Arguments: root, file, and optionally labels and annotations to add to all objects. With namespace, cluster roles and their bindings become
roles and bindings in this namespace. With secrets, rules to read Secrets apply to these names only.
*/}}
{{- define "weir.copied" -}}
{{- $labels := merge (include "weir.labels" .root | fromYaml) (.labels | default dict) }}
{{- $annotations := .annotations | default dict }}
{{- $text := required (printf "the chart lacks %s" .file) (.root.Files.Get .file) | replace "weir-system" .root.Release.Namespace }}
{{- range $document := regexSplit "(?m)^---$" $text -1 }}
{{- $object := fromYaml $document }}
{{- $metadata := required (printf "%s has a document without metadata" $.file) $object.metadata }}
{{- if $.namespace }}
{{- $_ := set $object "kind" (trimPrefix "Cluster" $object.kind) }}
{{- $_ := set $metadata "namespace" $.namespace }}
{{- if $object.roleRef }}
{{- $_ := set $object.roleRef "kind" (trimPrefix "Cluster" $object.roleRef.kind) }}
{{- end }}
{{- end }}
{{- if $.secrets }}
{{- range $rule := $object.rules }}
{{- if and (has "secrets" $rule.resources) (has "get" $rule.verbs) }}
{{- $_ := set $rule "resourceNames" $.secrets }}
{{- end }}
{{- end }}
{{- end }}
{{- $_ := set $metadata "labels" (merge (dict) $labels ($metadata.labels | default dict)) }}
{{- if $annotations }}
{{- $_ := set $metadata "annotations" (merge (dict) $annotations ($metadata.annotations | default dict)) }}
{{- end }}
---
{{ toYaml $object }}
{{- end }}
{{- end }}
