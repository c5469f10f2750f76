# A shell that starts a job in the background each 200 ms, which sorts a file and counts its words. Prints how long each took, in ns.
rounds=$1
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
awk 'BEGIN { srand(7); for (i = 0; i < 60000; i++) print int(rand() * 1e9), "word" int(rand() * 5000), i }' > "$folder/lines"
round=0
while [ "$round" -lt "$rounds" ]; do
   (
      began=$(date +%s%N)
      sort -n "$folder/lines" | awk '{ count[$2]++ } END { print length(count) }' > /dev/null
      ended=$(date +%s%N)
      echo $((ended - began))
   ) &
   sleep 0.2
   round=$((round + 1))
done
wait
